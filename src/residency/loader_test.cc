// SPDX-License-Identifier: Apache-2.0
// The loader over an engine whose reads end when told: waiting, cancelling, counting.
#include "residency/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "residency/testing/fake_read_engine.h"
#include "residency/testing/loader_world.h"

namespace estream {
namespace {

using testing::FakeReadEngine;
using testing::LoaderWorld;

const std::vector<uint32_t> kAll(LoaderWorld::kExperts, 1);
const std::vector<uint32_t> kNone(LoaderWorld::kExperts, 0);

class LoaderTest : public ::testing::Test {
 protected:
  void Open(uint32_t banks, uint32_t depth, LoaderOptions options = {}) {
    world_ = std::make_unique<LoaderWorld>(2, banks, 1);
    engine_ = std::make_unique<FakeReadEngine>(depth);
    options.arenas = world_->options(depth).arenas;
    options.depth = depth;
    loader_ = Loader::Create(engine_.get(), std::move(options)).value();
  }
  // Without this the loader would wait for reads that nobody ends.
  void Shut() {
    engine_->Refuse(Status::Cancelled("the test is over"));
    CompleteAllPending();
    loader_.reset();
  }
  void TearDown() override { Shut(); }
  void StartStream() { ASSERT_TRUE(loader_->Start(world_->tape, world_->stream(++epoch_)).ok()); }
  void CompleteAllPending() {
    while (!engine_->pending().empty()) engine_->Complete();
  }

  std::unique_ptr<LoaderWorld> world_;
  std::unique_ptr<FakeReadEngine> engine_;
  std::unique_ptr<Loader> loader_;
  uint64_t epoch_ = 0;
};

TEST_F(LoaderTest, KeepsNoMoreThanDepthReadsInFlight) {
  Open(4, 2);
  StartStream();
  EXPECT_EQ(engine_->pending().size(), 2u);
  engine_->Complete(1);
  EXPECT_EQ(engine_->pending().size(), 2u);
  CompleteAllPending();
  EXPECT_EQ(loader_->counts().reads, 5u);  // the block and four groups: the arenas are full
}

TEST_F(LoaderTest, LeaseHoldsTheRecordAndItsPlace) {
  Open(2, 4);
  StartStream();
  CompleteAllPending();
  ASSERT_TRUE(loader_->Decide(0, kAll).ok());
  auto lease = loader_->Acquire({0, 0, 1});
  ASSERT_TRUE(lease.ok()) << lease.status().message();
  EXPECT_TRUE(world_->Holds(*lease, {0, 0, 1}));
  EXPECT_EQ(lease->arena(), 0u);
  EXPECT_EQ(lease->bank_offset(), world_->experts.bank_offset(lease->bank()));
  EXPECT_EQ(lease->memory().data(), world_->experts.bank_memory(lease->bank()).data());
  EXPECT_EQ(loader_->counts().stalls, 0u);
}

TEST_F(LoaderTest, AcquireWaitsUntilTheReadEnds) {
  Open(1, 1);
  StartStream();
  ASSERT_TRUE(loader_->Decide(0, kAll).ok());
  std::thread executor([&] {
    for (const RecordId& id : {RecordId{1, 0, 0}, RecordId{0, 0, 0}, RecordId{0, 0, 1}}) {
      auto lease = loader_->Acquire(id);
      ASSERT_TRUE(lease.ok()) << lease.status().message();
      EXPECT_TRUE(world_->Holds(*lease, id));
    }
  });
  // Block 0, group 0, the block of layer 1, group 1: in order, however late.
  for (int read = 0; read < 4; ++read) engine_->Complete();
  executor.join();
}

TEST_F(LoaderTest, TryAcquireDoesNotWait) {
  Open(2, 3);
  StartStream();
  ASSERT_TRUE(loader_->Decide(0, kAll).ok());
  auto none = loader_->TryAcquire({0, 0, 0});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  CompleteAllPending();
  auto lease = loader_->TryAcquire({0, 0, 0});
  ASSERT_TRUE(lease.ok() && lease->has_value());
  EXPECT_TRUE(world_->Holds(**lease, {0, 0, 0}));
}

TEST_F(LoaderTest, BankIsReadAgainOnlyAfterItsLastLease) {
  Open(1, 2);
  StartStream();
  CompleteAllPending();
  ASSERT_TRUE(loader_->Decide(0, kAll).ok());
  BankLease first = loader_->Acquire({0, 0, 0}).value();
  BankLease second = first.Share();
  BankLease moved = std::move(first);
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(moved.bank(), second.bank());
  moved = BankLease();
  EXPECT_TRUE(engine_->pending().empty());
  second.Drop();
  second.Drop();
  ASSERT_EQ(engine_->pending().size(), 1u);
  EXPECT_EQ(engine_->pending()[0].offset, world_->record({0, 0, 1}).offset);
  CompleteAllPending();
}

TEST_F(LoaderTest, CancelEndsAWaitingAcquireAndDrainsReads) {
  Open(1, 2);
  StartStream();
  ASSERT_TRUE(loader_->Decide(0, kAll).ok());
  std::thread executor([&] { EXPECT_EQ(loader_->Acquire({0, 0, 1}).status().code(), StatusCode::kCancelled); });
  std::atomic<bool> all_ended = false;
  std::thread canceller([&] {
    loader_->Cancel();
    EXPECT_TRUE(all_ended.load());
  });
  executor.join();
  // Both reads are still in flight, so Cancel has not returned.
  EXPECT_EQ(engine_->pending().size(), 2u);
  engine_->Complete();
  all_ended = true;
  engine_->Complete();
  canceller.join();
  EXPECT_TRUE(engine_->pending().empty());
  EXPECT_EQ(loader_->Acquire({0, 0, 0}).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(loader_->Decide(1, kAll).code(), StatusCode::kCancelled);
}

TEST_F(LoaderTest, RequestAfterCancelUsesWhatWasRead) {
  Open(1, 2);
  StartStream();
  CompleteAllPending();
  loader_->Cancel();
  StartStream();
  EXPECT_TRUE(engine_->pending().empty());
  ASSERT_TRUE(loader_->Decide(0, kAll).ok());
  EXPECT_TRUE(world_->Holds(loader_->Acquire({0, 0, 0}).value(), {0, 0, 0}));
  CompleteAllPending();
}

TEST_F(LoaderTest, StartEndsTheWaitsOfTheRequestBefore) {
  Open(1, 2);
  StartStream();
  ASSERT_TRUE(loader_->Decide(0, kAll).ok());
  std::thread executor([&] { EXPECT_EQ(loader_->Acquire({0, 0, 2}).status().code(), StatusCode::kCancelled); });
  while (loader_->counts().waiting == 0) std::this_thread::yield();
  StartStream();
  executor.join();
  CompleteAllPending();
}

TEST_F(LoaderTest, ReadErrorFailsTheRequestThatUsesItAndNoOther) {
  Open(2, 3);
  StartStream();
  engine_->Complete(1, Status::Io("bad sector"));
  engine_->Complete(1, Status::Io("another bad sector"));
  CompleteAllPending();
  // Group 0 has no routes: nobody hears of its error.
  ASSERT_TRUE(loader_->Decide(0, std::vector<uint32_t>{0, 0, 1, 1, 1, 1, 1, 1}).ok());
  CompleteAllPending();
  EXPECT_EQ(loader_->Acquire({0, 0, 1}).status().message(), "another bad sector");
  CompleteAllPending();
  EXPECT_TRUE(world_->Holds(loader_->Acquire({0, 0, 1}).value(), {0, 0, 1}));
  EXPECT_EQ(loader_->counts().failed_reads, 2u);
  CompleteAllPending();
}

TEST_F(LoaderTest, FailureOfAnyReadReachesExactlyOneAcquire) {
  constexpr uint32_t kReads = 2 * (1 + LoaderWorld::kGroups);
  for (uint32_t k = 0; k < kReads; ++k) {
    Open(1, 1);
    StartStream();
    uint32_t failures = 0;
    std::thread executor([&] {
      for (uint32_t layer = 0; layer < 2; ++layer) {
        std::vector<RecordId> ids = {{1, layer, 0}};
        for (uint32_t g = 0; g < LoaderWorld::kGroups; ++g) ids.push_back({0, layer, g});
        for (const RecordId& id : ids) {
          if (id.arena == 1) ES_CHECK(loader_->Decide(layer, kAll).ok());
          auto lease = loader_->Acquire(id);
          if (!lease.ok()) {
            ++failures;
            EXPECT_EQ(lease.status().message(), "bad sector");
            lease = loader_->Acquire(id);
          }
          ASSERT_TRUE(lease.ok());
          EXPECT_TRUE(world_->Holds(*lease, id));
        }
      }
    });
    for (uint32_t read = 0; read < kReads + 1; ++read) {
      engine_->Complete(0, read == k ? Status::Io("bad sector") : Status::Ok());
    }
    executor.join();
    EXPECT_EQ(failures, 1u) << k;
    Shut();
  }
}

TEST_F(LoaderTest, ReadsThatCannotBeSubmittedFailTheirAcquire) {
  Open(1, 1);
  engine_->Refuse(Status::Cancelled("the read engine is closed"));
  StartStream();
  EXPECT_EQ(loader_->Acquire({1, 0, 0}).status().message(), "the read engine is closed");
}

TEST_F(LoaderTest, MistakesOfTheCallerAreNamed) {
  Open(1, 2);
  EXPECT_EQ(loader_->Acquire({0, 0, 0}).status().code(), StatusCode::kCancelled);  // nothing was started
  StartStream();
  EXPECT_EQ(loader_->Acquire({0, 0, 0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(loader_->Acquire({0, 0, 99}).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(loader_->Decide(0, kNone).ok());
  EXPECT_EQ(loader_->Acquire({0, 0, 0}).status().code(), StatusCode::kInvalidArgument);
  CompleteAllPending();
  EXPECT_EQ(Loader::Create(engine_.get(), world_->options(3)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Loader::Create(engine_.get(), world_->options(0)).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(LoaderTest, SparseReadPutsSlotsWhereAWholeReadWould) {
  Open(1, 2);
  WalkOptions options = world_->stream(++epoch_);
  options.early_order.clear();
  options.sparse = true;
  ASSERT_TRUE(loader_->Start(world_->tape, options).ok());
  ASSERT_TRUE(loader_->Decide(0, std::vector<uint32_t>{0, 1, 0, 0, 0, 0, 0, 0}).ok());
  CompleteAllPending();
  const BankLease lease = loader_->Acquire({0, 0, 0}).value();
  const TapeRecord& record = world_->record({0, 0, 0});
  EXPECT_EQ(lease.memory().size(), record.bytes());
  EXPECT_TRUE(testing::HasPattern(lease.memory().subspan(record.record_bytes), record.offset + record.record_bytes));
}

TEST_F(LoaderTest, StartIsRefusedWhileALeaseIsHeld) {
  Open(1, 2);
  StartStream();
  CompleteAllPending();
  BankLease lease = loader_->Acquire({1, 0, 0}).value();
  EXPECT_EQ(loader_->Start(world_->tape, world_->stream(++epoch_)).code(), StatusCode::kInvalidArgument);
  loader_->Cancel();
  EXPECT_TRUE(world_->Holds(lease, {1, 0, 0}));  // a lease outlives its request
  lease.Drop();
  StartStream();
  CompleteAllPending();
}

TEST_F(LoaderTest, TimesAreThoseOfTheClock) {
  std::atomic<uint64_t> now = 100;
  std::vector<ReadEvent> events;
  LoaderOptions options;
  options.now_ns = [&] { return now.load(); };
  options.on_read = [&](const ReadEvent& event) { events.push_back(event); };
  Open(2, 2, options);
  StartStream();  // block 0 and group 0 at 100
  now = 130;
  engine_->Complete(0);  // then group 1
  now = 150;
  engine_->Complete(0);
  now = 155;
  EXPECT_EQ(loader_->counts().io_ns, 55u);  // still reading
  engine_->Complete(0);
  now = 1000;
  EXPECT_EQ(loader_->counts().io_ns, 55u);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].record, 2u);
  EXPECT_EQ(events[2].epoch, 1u);
  EXPECT_EQ(events[2].begin_ns, 130u);
  EXPECT_EQ(events[2].end_ns, 155u);
  EXPECT_EQ(events[2].bytes, world_->tape->records[2].bytes());
  EXPECT_TRUE(events[2].ok);
  // A wait of 40, in which one read of 40 ends.
  ASSERT_TRUE(loader_->Decide(0, std::vector<uint32_t>{0, 0, 0, 0, 1, 0, 0, 0}).ok());
  std::thread executor([&] { EXPECT_TRUE(loader_->Acquire({0, 0, 2}).ok()); });
  while (loader_->counts().waiting == 0) std::this_thread::yield();
  now = 1040;
  CompleteAllPending();
  executor.join();
  EXPECT_EQ(loader_->counts().stalls, 1u);
  EXPECT_EQ(loader_->counts().stall_ns, 40u);
  EXPECT_EQ(loader_->counts().io_ns, 95u);
  EXPECT_EQ(loader_->counts().wasted_reads, 2u);
  Shut();  // while what the loader calls is still there
}

}  // namespace
}  // namespace estream
