// SPDX-License-Identifier: Apache-2.0
// Eq. 4, byte ranges of groups, and the geometry of the arena they go to.
#include "residency/group_layout.h"

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"
#include "residency/bank_arena.h"
#include "residency/tape.h"

namespace estream {
namespace {

TEST(GroupLayout, EveryPositionIsInOneGroupAndGroupsCoverTheFile) {
  for (const uint32_t experts : {1u, 2u, 8u, 31u, 32u, 33u, 64u, 127u, 128u}) {
    for (const uint32_t group_size : {1u, 2u, 3u, 8u, 32u, 64u, 128u, 200u}) {
      const auto layout = GroupLayout::Create(3 * kPageBytes, 5 * kPageBytes, experts, group_size);
      ASSERT_TRUE(layout.ok());
      uint64_t end = layout->first_offset;
      uint32_t position = 0;
      for (uint32_t g = 0; g < layout->group_count(); ++g) {
        ASSERT_EQ(layout->range(g).offset, end);
        end += layout->range(g).bytes;
        for (uint32_t r = 0; r < layout->experts_in(g); ++r, ++position) {
          ASSERT_EQ(layout->group_of(position), g);
          ASSERT_EQ(layout->rank_of(position), r);
        }
      }
      EXPECT_EQ(position, experts);
      EXPECT_EQ(end, layout->first_offset + experts * layout->record_bytes);
    }
  }
}

TEST(GroupLayout, ImpossibleLayersAreRefused) {
  struct Case {
    uint64_t offset, record_bytes;
    uint32_t experts, group_size;
  };
  const Case cases[] = {{0, 4096, 0, 1},
                        {0, 4096, 1, 0},
                        {0, 0, 1, 1},
                        {1, 4096, 1, 1},
                        {0, 4095, 1, 1},
                        {uint64_t{1} << 63, 4096, 1, 1},
                        {0, uint64_t{1} << 62, 2, 1},
                        {0, ~uint64_t{4095}, 64, 8},
                        {~uint64_t{4095}, 4096, 1, 1}};
  for (const Case& c : cases) {
    EXPECT_EQ(GroupLayout::Create(c.offset, c.record_bytes, c.experts, c.group_size).status().code(),
              StatusCode::kInvalidArgument)
        << c.offset << " " << c.record_bytes << " " << c.experts << " " << c.group_size;
  }
}

TEST(BankArena, BanksAndSlotsFollowEachOther) {
  auto memory = AlignedBuffer::Allocate(100 * kPageBytes);
  ASSERT_TRUE(memory.ok());
  const auto arena = BankArena::Create(memory->span(), 3, 4 * kPageBytes);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->banks, 8u);
  for (uint32_t b = 0; b < arena->banks; ++b) {
    EXPECT_EQ(arena->bank_memory(b).data(), memory->data() + arena->bank_offset(b));
    EXPECT_EQ(arena->bank_memory(b).size(), 12 * kPageBytes);
    for (uint32_t s = 0; s < 3; ++s) {
      EXPECT_EQ(arena->slot_index(b, s), 3 * b + s);
      EXPECT_EQ(arena->address(b, s), memory->data() + (3 * b + s) * 4 * kPageBytes);
    }
  }
}

TEST(BankArena, WhatHoldsNoBankIsRefused) {
  auto memory = AlignedBuffer::Allocate(4 * kPageBytes);
  ASSERT_TRUE(memory.ok());
  struct Case {
    uint64_t skip, bytes;
    uint32_t slots;
    uint64_t stride;
  };
  const Case cases[] = {
      {0, 4 * kPageBytes, 0, kPageBytes},     {0, 4 * kPageBytes, 1, 0}, {0, 4 * kPageBytes, 1, kPageBytes + 128},
      {0, 4 * kPageBytes, 5, kPageBytes},     {0, 0, 1, kPageBytes},     {128, 3 * kPageBytes, 1, kPageBytes},
      {0, 4 * kPageBytes, 2, ~uint64_t{4095}}};
  for (const Case& c : cases) {
    EXPECT_EQ(BankArena::Create(memory->span().subspan(c.skip, c.bytes), c.slots, c.stride).status().code(),
              StatusCode::kInvalidArgument)
        << c.skip << " " << c.bytes << " " << c.slots << " " << c.stride;
  }
}

TEST(Tape, GroupsAreAppendedInPackOrderWithAShortLastOne) {
  Tape tape;
  tape.records.push_back({.arena = 1, .layer = 4, .slots = 1, .offset = 0, .record_bytes = kPageBytes});
  tape.AppendGroups(*GroupLayout::Create(kPageBytes, 2 * kPageBytes, 5, 2), 0, 4, 7);
  ASSERT_EQ(tape.records.size(), 4u);
  const TapeRecord last = {0, 4, 2, 1, 7, true, 9 * kPageBytes, 2 * kPageBytes};
  EXPECT_EQ(tape.records[3], last);
  EXPECT_EQ(tape.records[2].bytes(), 4 * kPageBytes);
  EXPECT_EQ(tape.RoutedInOrder(), (std::vector<uint32_t>{1, 2, 3}));
}

}  // namespace
}  // namespace estream
