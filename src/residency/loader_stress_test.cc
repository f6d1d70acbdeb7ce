// SPDX-License-Identifier: Apache-2.0
// The loader with real threads and real reads: a request thread, a device that gives banks back late, a canceller.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <thread>

#include "residency/loader.h"
#include "residency/testing/faulty_file.h"
#include "residency/testing/loader_world.h"

namespace estream {
namespace {

using testing::FaultyFile;
using testing::LoaderWorld;
using Kind = ReadEngineOptions::Kind;

// Executes leases in order on a thread of its own: checks their bytes, then drops them.
class SlowDevice {
 public:
  explicit SlowDevice(const LoaderWorld& world) : world_(world), thread_([this] { Run(); }) {}
  ~SlowDevice() {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }
  void Submit(BankLease lease, const RecordId& id) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    queue_.push_back({std::move(lease), id});
    changed_.NotifyAll();
  }
  // Returns when everything submitted was dropped.
  void Drain() ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!queue_.empty() || busy_) changed_.Wait(mutex_);
  }

 private:
  struct Call {
    BankLease lease;
    RecordId id;
  };
  void Run() ES_EXCLUDES(mutex_) {
    while (true) {
      Call call;
      {
        MutexLock lock(mutex_);
        busy_ = false;
        changed_.NotifyAll();
        while (queue_.empty() && !closing_) changed_.Wait(mutex_);
        if (queue_.empty()) return;
        call = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      EXPECT_TRUE(world_.Holds(call.lease, call.id));
      std::this_thread::yield();
      EXPECT_TRUE(world_.Holds(call.lease, call.id));
      call.lease.Drop();
    }
  }

  const LoaderWorld& world_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Call> queue_ ES_GUARDED_BY(mutex_);
  bool busy_ ES_GUARDED_BY(mutex_) = false;
  bool closing_ ES_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

struct Shape {
  const char* name;
  Kind kind;
  bool on_disk;
  uint32_t expert_banks, block_banks, depth;
};

class LoaderStressTest : public ::testing::TestWithParam<Shape> {
 protected:
  // One request with random routing. Returns false when it was cancelled.
  bool RunRequest(Loader& loader, SlowDevice& device, const LoaderWorld& world, std::mt19937& random) {
    for (uint32_t layer = 0; layer < world.layer_count; ++layer) {
      {
        auto block = loader.Acquire({1, layer, 0});
        if (!Went(block.status())) return false;
        EXPECT_TRUE(world.Holds(*block, {1, layer, 0}));
        std::vector<uint32_t> routes(LoaderWorld::kExperts);
        for (uint32_t& r : routes) r = random() % 3;
        if (!Went(loader.Decide(layer, routes))) return false;
        routes_ = routes;
      }
      for (uint32_t g = 0; g < LoaderWorld::kGroups; ++g) {
        if (routes_[2 * g] + routes_[2 * g + 1] == 0) continue;
        auto lease = loader.Acquire({0, layer, g});
        if (!Went(lease.status())) return false;
        device.Submit(std::move(*lease), {0, layer, g});
      }
    }
    return true;
  }
  static bool Went(const Status& status) {
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kCancelled) << status.message();
    return status.ok();
  }

  std::vector<uint32_t> routes_;
};

TEST_P(LoaderStressTest, EveryLeaseHoldsItsRecordWhileRequestsComeAndGo) {
  const Shape& shape = GetParam();
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const LoaderWorld world(6, shape.expert_banks, shape.block_banks);
  std::optional<testing::PatternFile> disk;
  std::shared_ptr<RecordFile> file;
  if (shape.on_disk) {
    disk.emplace(ES_BINARY_DIR, world.file_bytes);
    file = OpenRecordFile(disk->path()).value();
  } else {
    auto faulty = std::make_shared<FaultyFile>(testing::PatternBytes(world.file_bytes));
    faulty->ReadAtMost(kPageBytes + 1000);
    file = faulty;
  }
  auto engine = MakeReadEngine({file}, world.regions(), {shape.kind, shape.depth});
  if (engine.status().code() == StatusCode::kUnsupported) GTEST_SKIP() << engine.status().message();
  auto loader = Loader::Create(engine->get(), world.options(shape.depth)).value();
  {
    SlowDevice device(world);
    uint32_t finished = 0;
    for (uint64_t epoch = 1; epoch <= 60; ++epoch) {
      ASSERT_TRUE(loader->Start(world.tape, world.stream(epoch)).ok());
      std::optional<std::thread> canceller;
      if (random() % 4 == 0) {
        canceller.emplace([&, reads = loader->counts().reads + random() % 20] {
          // After some progress, but in any case: the request may end before.
          for (int i = 0; i < 1000 && loader->counts().reads < reads; ++i) std::this_thread::yield();
          loader->Cancel();
        });
      }
      finished += RunRequest(*loader, device, world, random);
      if (canceller) canceller->join();
      device.Drain();
    }
    EXPECT_GT(finished, 0u);
    EXPECT_EQ(loader->counts().failed_reads, 0u);
  }
  // Closed while the next request's reads are in flight.
  ASSERT_TRUE(loader->Start(world.tape, world.stream(100)).ok());
  loader.reset();
}

TEST_P(LoaderStressTest, SeveralThreadsShareALayer) {
  const Shape& shape = GetParam();
  const LoaderWorld world(4, shape.expert_banks, shape.block_banks);
  const testing::PatternFile disk(ES_BINARY_DIR, world.file_bytes);
  auto engine = MakeReadEngine({OpenRecordFile(disk.path()).value()}, world.regions(), {shape.kind, shape.depth});
  if (engine.status().code() == StatusCode::kUnsupported) GTEST_SKIP() << engine.status().message();
  auto loader = Loader::Create(engine->get(), world.options(shape.depth)).value();
  for (uint64_t epoch = 1; epoch <= 10; ++epoch) {
    ASSERT_TRUE(loader->Start(world.tape, world.stream(epoch)).ok());
    for (uint32_t layer = 0; layer < world.layer_count; ++layer) {
      ASSERT_TRUE(loader->Decide(layer, std::vector<uint32_t>(LoaderWorld::kExperts, 1)).ok());
      std::vector<std::thread> threads;
      for (uint32_t g = 0; g < LoaderWorld::kGroups; ++g) {
        threads.emplace_back([&, layer, g] {
          auto lease = loader->Acquire({0, layer, g});
          ASSERT_TRUE(lease.ok()) << lease.status().message();
          EXPECT_TRUE(world.Holds(*lease, {0, layer, g}));
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LoaderStressTest,
                         ::testing::Values(Shape{"ThreadsSmallest", Kind::kThreads, false, 1, 1, 1},
                                           Shape{"ThreadsDeep", Kind::kThreads, false, 3, 2, 4},
                                           Shape{"ThreadsOnDisk", Kind::kThreads, true, 2, 1, 2},
                                           Shape{"UringSmallest", Kind::kUring, true, 1, 1, 1},
                                           Shape{"UringDeep", Kind::kUring, true, 5, 2, 4}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace estream
