// SPDX-License-Identifier: Apache-2.0
// What one request leaves to the next: banks that it would read first, and nothing else.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "residency/tape_walk.h"
#include "residency/testing/small_walk.h"

namespace estream {
namespace {

using testing::kAllRouted;
using testing::Records;
using testing::Walk;

TEST(TapeWalkRequests, SparseBankOfTheRequestBeforeIsToppedUp) {
  Walk walk(1);
  WalkOptions options;
  options.sparse = true;
  walk.Start(options);
  walk.Decide(0, {1, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
  walk.CompleteAll();
  walk->Stop();
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), Records{});
  walk.Decide(0, kAllRouted);
  EXPECT_FALSE(walk.Use(0));
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
  EXPECT_EQ(walk.reads()[0].bank_offset, kPageBytes);
  EXPECT_EQ(walk.reads()[0].bytes, kPageBytes);
  EXPECT_FALSE(walk.Use(0));
  walk.CompleteAll();
  EXPECT_TRUE(walk.Use(0));
}

TEST(TapeWalkRequests, NextRequestFindsItsFirstBanksFilled) {
  Walk walk(3);
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), (Records{0, 1, 2}));
  walk->Complete(walk.reads()[0], Status::Ok());
  walk->Stop();
  EXPECT_FALSE(walk->Next());
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), Records{});
  walk.Decide(0, kAllRouted);
  EXPECT_TRUE(walk.Use(0));
  EXPECT_FALSE(walk.Use(1));
  walk->Complete(walk.reads()[1], Status::Ok());
  EXPECT_TRUE(walk.Use(1));
  EXPECT_EQ(walk->counts().early_hits, 3u);
  EXPECT_EQ(walk->counts().missed, 1u);
  EXPECT_EQ(walk->counts().wasted_reads, 0u);
}

TEST(TapeWalkRequests, BanksTheNextRequestWouldNotReadFirstAreGivenBack) {
  Walk walk(2);
  walk.Start({.early_order = {8, 9}});
  EXPECT_EQ(walk.ReadAll(), (Records{8, 9}));
  walk->Complete(walk.reads()[0], Status::Ok());
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
  walk->Complete(walk.reads()[1], Status::Ok());
  EXPECT_EQ(walk->counts().wasted_reads, 2u);
  EXPECT_EQ(walk.ReadAll(), (Records{1}));
}

TEST(TapeWalkRequests, ReadErrorsOfTheRequestBeforeAreNotInherited) {
  Walk walk(1);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll(Status::Io("bad sector"));
  walk.Start(walk.InOrder());
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
}

TEST(TapeWalkRequests, BankOfAnotherTapeIsNotTakenForTheSameRecord) {
  Walk walk(1);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll();
  auto moved = std::make_shared<Tape>(*walk.tape());
  for (TapeRecord& record : moved->records) record.offset += kPageBytes;
  ASSERT_TRUE(walk->Start(moved, {.epoch = 100, .early_order = moved->RoutedInOrder()}).ok());
  EXPECT_EQ(walk.ReadAll(), (Records{0}));
}

TEST(TapeWalkRequests, RequestDoesNotStartWhileTheOneBeforeHoldsALease) {
  Walk walk(1);
  walk.Start(walk.InOrder());
  walk.ReadAll();
  walk.CompleteAll();
  walk.Decide(0, kAllRouted);
  const auto bank = walk->TryAcquire(0);
  ASSERT_TRUE(bank.ok() && bank->has_value());
  EXPECT_EQ(walk->Start(walk.tape(), {.epoch = 100}).code(), StatusCode::kInvalidArgument);
  walk->Drop(0, **bank);
  EXPECT_TRUE(walk->Start(walk.tape(), {.epoch = 100}).ok());
}

}  // namespace
}  // namespace estream
