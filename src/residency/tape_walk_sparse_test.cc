// SPDX-License-Identifier: Apache-2.0
// Of a group with few routed experts only these are read, in runs.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "residency/tape_walk.h"
#include "residency/testing/small_walk.h"

namespace estream {
namespace {

using testing::Records;
using testing::Walk;

TEST(TapeWalkSparse, ReadsCoverRoutedSlotsOnly) {
  Walk walk(4);
  WalkOptions options;
  options.sparse = true;
  walk.Start(options);
  walk.Decide(0, {0, 1, 1, 0, 1, 1, 0, 0});
  EXPECT_EQ(walk.ReadAll(), (Records{0, 1, 2}));
  const uint64_t offset = walk.tape()->records[0].offset;
  EXPECT_EQ(walk.reads()[0].offset, offset + kPageBytes);
  EXPECT_EQ(walk.reads()[0].bank_offset, kPageBytes);
  EXPECT_EQ(walk.reads()[0].bytes, kPageBytes);
  EXPECT_EQ(walk.reads()[1].bank_offset, 0u);
  EXPECT_EQ(walk.reads()[1].bytes, kPageBytes);
  EXPECT_EQ(walk.reads()[2].bytes, 2 * kPageBytes);
  walk.CompleteAll();
  for (const uint32_t i : {0u, 1u, 2u}) EXPECT_TRUE(walk.Use(i));
}

// One group of eight: runs of routed slots are reads of their own, all of them before another record's, and together
// they may be leased. Where three quarters or more are routed, the group is read as a whole.
TEST(TapeWalkSparse, SparseReadsOfAGroupFollowEachOther) {
  struct Case {
    std::vector<uint32_t> routes;
    std::vector<SlotRange> reads;
  };
  const Case cases[] = {{{1, 0, 0, 3, 1, 0, 0, 1}, {{0, 1}, {3, 2}, {7, 1}}},
                        {{0, 0, 2, 2, 2, 2, 2, 0}, {{2, 5}}},
                        {{1, 1, 1, 0, 1, 1, 1, 0}, {{0, 8}}},
                        {{1, 1, 1, 1, 1, 1, 1, 1}, {{0, 8}}},
                        {{0, 0, 0, 0, 0, 0, 0, 5}, {{7, 1}}}};
  for (const Case& c : cases) {
    TapeWalk walk({{2, 8, 2, 1, kPageBytes}});
    auto tape = std::make_shared<Tape>();
    for (uint32_t l = 0; l < 2; ++l) tape->AppendGroups({l * 8 * kPageBytes, kPageBytes, 8, 8}, 0, l, 0);
    WalkOptions options;
    options.epoch = 1;
    options.sparse = true;
    ASSERT_TRUE(walk.Start(tape, options).ok());
    ASSERT_TRUE(walk.Decide(0, c.routes).ok());
    ASSERT_TRUE(walk.Decide(1, c.routes).ok());
    std::vector<PlannedRead> reads;
    while (const auto read = walk.Next()) reads.push_back(*read);
    ASSERT_EQ(reads.size(), 2 * c.reads.size());
    for (size_t k = 0; k < reads.size(); ++k) {
      const SlotRange slots = c.reads[k % c.reads.size()];
      EXPECT_EQ(reads[k].record, k / c.reads.size());
      EXPECT_EQ(reads[k].slots, slots);
      EXPECT_EQ(reads[k].bank_offset, slots.first * kPageBytes);
      EXPECT_EQ(reads[k].offset, tape->records[reads[k].record].offset + slots.first * kPageBytes);
      EXPECT_EQ(reads[k].bytes, slots.count * kPageBytes);
      EXPECT_FALSE(walk.TryAcquire(reads[k].record).value());
    }
    for (size_t k = c.reads.size(); k-- > 0;) {
      EXPECT_FALSE(walk.TryAcquire(0).value()) << "before its last read";
      walk.Complete(reads[k], Status::Ok());
    }
    EXPECT_TRUE(walk.TryAcquire(0).value());
    EXPECT_FALSE(walk.TryAcquire(1).value());
  }
}

TEST(TapeWalkSparse, AFailedSparseReadEndsTheReadingOfItsGroup) {
  TapeWalk walk({{1, 4, 1, 1, kPageBytes}});
  auto tape = std::make_shared<Tape>();
  tape->AppendGroups({0, kPageBytes, 4, 4}, 0, 0, 0);
  WalkOptions options;
  options.epoch = 1;
  options.sparse = true;
  ASSERT_TRUE(walk.Start(tape, options).ok());
  ASSERT_TRUE(walk.Decide(0, std::vector<uint32_t>{1, 0, 1, 0}).ok());
  const PlannedRead first = *walk.Next();
  walk.Complete(first, Status::Io("bad sector"));
  EXPECT_FALSE(walk.Next());
  EXPECT_EQ(walk.TryAcquire(0).status().message(), "bad sector");
  // Asking again reads all of it again.
  EXPECT_EQ(walk.Next()->slots, (SlotRange{0, 1}));
  EXPECT_EQ(walk.Next()->slots, (SlotRange{2, 1}));
}

}  // namespace
}  // namespace estream
