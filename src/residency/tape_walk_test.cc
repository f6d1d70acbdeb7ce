// SPDX-License-Identifier: Apache-2.0
// The order of reads, one rule at a time.
#include "residency/tape_walk.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "residency/testing/small_walk.h"

namespace estream {
namespace {

using testing::kAllRouted;
using testing::kGroups;
using testing::kLayers;
using testing::kSlots;
using testing::MakeTape;
using testing::Records;
using testing::Walk;

TEST(TapeWalk, EarlyLoadingReadsInPackOrderUntilBanksAreFull) {
  Walk walk(3);
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), (Records{0, 1, 2}));
  walk.CompleteAll();
  EXPECT_EQ(walk.ReadAll(), Records{});
}

TEST(TapeWalk, EarlyLoadingGoesOnIntoTheNextLayer) {
  Walk walk(6);
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), (Records{0, 1, 2, 3, 4, 5}));
}

TEST(TapeWalk, WithoutAnEarlyOrderNothingRoutedIsReadBeforeDecide) {
  Walk walk(3);
  walk.Start({});
  EXPECT_EQ(walk.ReadAll(), Records{});
  walk.Decide(0, {0, 0, 1, 0, 0, 0, 0, 1});
  EXPECT_EQ(walk.ReadAll(), (Records{1, 3}));
}

TEST(TapeWalk, UnroutedGroupsAreSkippedDiscardedOrDropped) {
  Walk walk(3);
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), (Records{0, 1, 2}));
  walk->Complete(walk.reads()[0], Status::Ok());
  walk.Decide(0, {0, 0, 0, 0, 1, 1, 0, 0});
  // Group 0 was Ready: its bank is free. Group 1 is Filling: its bank is not. Group 3 is never read.
  EXPECT_EQ(walk->table(0).available(), 1u);
  EXPECT_EQ(walk->counts().wasted_reads, 1u);
  EXPECT_EQ(walk->counts().wasted_bytes, kSlots * kPageBytes);
  EXPECT_EQ(walk.ReadAll(), (Records{4}));
  walk->Complete(walk.reads()[1], Status::Ok());
  EXPECT_EQ(walk->table(0).available(), 1u);
  EXPECT_EQ(walk->counts().wasted_reads, 2u);
}

TEST(TapeWalk, NeededRecordsGoBeforeEarlyOnes) {
  Walk walk(2);
  walk.Start({.early_order = {4, 5, 6, 7}});
  EXPECT_EQ(walk.ReadAll(), (Records{4, 5}));
  walk.CompleteAll();
  walk.Decide(0, {1, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
}

TEST(TapeWalk, MispredictedRecordTakesTheReadyBankFarthestAhead) {
  Walk walk(3);
  walk.Start({.early_order = {3, 2, 1}});
  EXPECT_EQ(walk.ReadAll(), (Records{3, 2, 1}));
  const uint32_t farthest = walk.reads()[0].bank;
  walk.CompleteAll();
  walk.Decide(0, kAllRouted);
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
  EXPECT_EQ(walk.reads()[0].bank, farthest);
  EXPECT_EQ(walk->counts().displaced, 1u);
  // The displaced record is read again, in its turn.
  walk.CompleteAll();
  EXPECT_TRUE(walk.Use(0));
  EXPECT_EQ(walk.ReadAll(), (Records{3}));
}

TEST(TapeWalk, FillingBanksAreNotTakenBeforeTheirReadEnds) {
  Walk walk(1);
  walk.Start({.early_order = {3}});
  EXPECT_EQ(walk.ReadAll(), (Records{3}));
  walk.Decide(0, kAllRouted);
  EXPECT_EQ(walk.ReadAll(), Records{});
  walk.CompleteAll();
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
}

TEST(TapeWalk, LeasedBanksAreNotTaken) {
  Walk walk(1);
  walk.Start({.early_order = {3}});
  walk.ReadAll();
  walk.CompleteAll();
  walk.Decide(0, kAllRouted);
  const auto bank = walk->TryAcquire(3);
  ASSERT_TRUE(bank.ok() && bank->has_value());
  EXPECT_EQ(walk.ReadAll(), Records{});
  walk->Drop(0, **bank);
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
}

TEST(TapeWalk, NeededRecordDoesNotTakeAnEarlierOne) {
  Walk walk(1);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll();
  walk.Decide(0, kAllRouted);
  EXPECT_EQ(walk.ReadAll(), Records{});
}

TEST(TapeWalk, DemandedRecordTakesEvenAnEarlierOne) {
  Walk walk(1);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll();
  walk.Decide(0, kAllRouted);
  walk->Demand(2);
  EXPECT_EQ(walk.ReadAll(), (Records{2}));
  walk.CompleteAll();
  // Not taken back while somebody is on his way to it.
  EXPECT_EQ(walk.ReadAll(), Records{});
  EXPECT_TRUE(walk.Use(2));
  walk->Undemand(2);
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
}

TEST(TapeWalk, EarlyReadsTakeNoBanks) {
  Walk walk(1);
  walk.Start({.early_order = {5, 4}});
  EXPECT_EQ(walk.ReadAll(), (Records{5}));
  walk.CompleteAll();
  EXPECT_EQ(walk.ReadAll(), Records{});
}

TEST(TapeWalk, HorizonHoldsBackAllButDemandedRecords) {
  Walk walk(6);
  WalkOptions options = walk.InOrder();
  options.horizon = 2;
  walk.Start(options);
  EXPECT_EQ(walk.ReadAll(), (Records{0, 1}));
  walk->SetHorizon(1);  // never back
  walk->SetHorizon(4);
  EXPECT_EQ(walk.ReadAll(), (Records{2, 3}));
  walk.CompleteAll();
  walk.Decide(0, kAllRouted);
  walk.Decide(1, kAllRouted);
  EXPECT_EQ(walk.ReadAll(), Records{});
  walk->Demand(5);
  EXPECT_EQ(walk.ReadAll(), (Records{5}));
  walk->SetHorizon(WalkOptions::kNoHorizon);
  EXPECT_EQ(walk.ReadAll(), (Records{4}));
}

TEST(TapeWalk, ArenasShareTheTapeInOrder) {
  Walk walk(2, 1);
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), (Records{0, 1, 2}));  // block 0, groups 0 and 1 of layer 0
  walk.CompleteAll();
  EXPECT_TRUE(walk.Use(0));
  // The block arena is free again, the experts' is not.
  EXPECT_EQ(walk.ReadAll(), (Records{5}));
}

TEST(TapeWalk, ReadErrorSurfacesOnceAndTheRecordCanBeAskedForAgain) {
  Walk walk(1);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll(Status::Io("bad sector"));
  walk.Decide(0, kAllRouted);
  EXPECT_EQ(walk->TryAcquire(0).status().message(), "bad sector");
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
  walk.CompleteAll();
  EXPECT_TRUE(walk.Use(0));
  EXPECT_EQ(walk->counts().failed_reads, 1u);
  EXPECT_EQ(walk->counts().reads, 1u);
}

TEST(TapeWalk, ErrorOfAnUnroutedEarlyReadIsOnlyCounted) {
  Walk walk(1);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll(Status::Io("bad sector"));
  walk.Decide(0, {0, 0, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(walk->counts().failed_reads, 1u);
  EXPECT_EQ(walk->counts().wasted_reads, 0u);
  EXPECT_EQ(walk.ReadAll(), (Records{1}));
}

TEST(TapeWalk, LeasesAreCounted) {
  Walk walk(1);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll();
  walk.Decide(0, kAllRouted);
  const auto bank = walk->TryAcquire(0);
  walk->AddLease(0, **bank);
  walk->Drop(0, **bank);
  EXPECT_EQ(walk.ReadAll(), Records{});
  walk->Drop(0, **bank);
  EXPECT_EQ(walk.ReadAll(), (Records{1}));
}

TEST(TapeWalk, OnlyNeededUnusedRecordsCanBeLeased) {
  Walk walk(2);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll();
  EXPECT_NE(walk->TryAcquire(0).status().message().find("is not decided yet"), std::string::npos);
  walk.Decide(0, {1, 1, 0, 0, 1, 1, 1, 1});
  EXPECT_NE(walk->TryAcquire(1).status().message().find("has no routes"), std::string::npos);
  EXPECT_TRUE(walk.Use(0));
  EXPECT_NE(walk->TryAcquire(0).status().message().find("was used"), std::string::npos);
  EXPECT_FALSE(walk->Find({0, 0, kGroups}).ok());
  EXPECT_FALSE(walk->Find({1, 0, 0}).ok());
  EXPECT_FALSE(walk->Find({0, kLayers, 0}).ok());
}

TEST(TapeWalk, DecideNamesWhatIsWrong) {
  Walk walk(2);
  walk.Start({});
  EXPECT_NE(walk->Decide(kLayers, kAllRouted).message().find("no routed experts"), std::string::npos);
  EXPECT_NE(walk->Decide(0, std::vector<uint32_t>(7, 1)).message().find("8 experts, found routes for 7"),
            std::string::npos);
  ASSERT_TRUE(walk->Decide(0, kAllRouted).ok());
  EXPECT_NE(walk->Decide(0, kAllRouted).message().find("decided already"), std::string::npos);
}

TEST(TapeWalk, TapesAndOptionsThatBreakTheRulesAreRefused) {
  const std::shared_ptr<Tape> good = MakeTape(true);
  const auto changed = [&](auto change) {
    auto tape = std::make_shared<Tape>(*good);
    change(tape->records);
    return tape;
  };
  using Tapes = std::vector<TapeRecord>;
  const std::shared_ptr<Tape> bad_tapes[] = {
      changed([](Tapes& r) { r[0].arena = 2; }),          changed([](Tapes& r) { r[0].layer = kLayers; }),
      changed([](Tapes& r) { r[1].group = kGroups; }),    changed([](Tapes& r) { r[1].slots = 0; }),
      changed([](Tapes& r) { r[1].slots = kSlots + 1; }), changed([](Tapes& r) { r[1].record_bytes = 2 * kPageBytes; }),
      changed([](Tapes& r) { r[1].record_bytes = 0; }),   changed([](Tapes& r) { r[1].record_bytes = 100; }),
      changed([](Tapes& r) { r[1].offset = 1; }),         changed([](Tapes& r) { r[1].offset = ~uint64_t{4095}; }),
      changed([](Tapes& r) { r.push_back(r[0]); }),       changed([](Tapes& r) { std::swap(r[1], r[2]); }),
      changed([](Tapes& r) { std::swap(r[0], r[2]); }),   changed([](Tapes& r) { r.erase(r.begin() + 1); }),
      changed([](Tapes& r) { r[3].routed = false; }),
  };
  Walk walk(2, 1);
  for (const auto& tape : bad_tapes) {
    const Status status = walk->Start(tape, {.epoch = 1});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << &tape - bad_tapes;
    EXPECT_LT(status.message().size(), 300u);
  }
  const std::vector<uint32_t> bad_orders[] = {{0}, {15}, {1, 1}, {UINT32_MAX}};
  for (const auto& order : bad_orders) {
    EXPECT_EQ(walk->Start(good, {.epoch = 1, .early_order = order}).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(walk->Start(good, {.epoch = 0}).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(walk->running());
  EXPECT_TRUE(walk->Start(good, {.epoch = 1}).ok());
  EXPECT_EQ(walk->Start(good, {.epoch = 1}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace estream
