// SPDX-License-Identifier: Apache-2.0
// Streaming with real threads, ended or failed at every point in turn: each time the next request on the same object
// is served well.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/mutex.h"
#include "pipeline/streaming_experts.h"
#include "pipeline/testing/host_device.h"
#include "pipeline/testing/watchdog.h"
#include "residency/testing/pattern.h"

namespace estream {
namespace {

using testing::HostDevice;

constexpr uint32_t kLayers = 3;
constexpr uint32_t kExperts = 5;  // with G = 2 the last group is short
constexpr uint32_t kMaxRoutes = 3;
constexpr uint64_t kRecordBytes = 2 * kPageBytes;

uint64_t FileOffset(uint32_t layer, uint32_t expert) { return (uint64_t{layer} * kExperts + expert) * kRecordBytes; }

// Reads of the pattern that take a random while, come in pieces, and fail when told to.
//
// Threads: any.
class UnsteadyFile final : public RecordFile {
 public:
  explicit UnsteadyFile(uint32_t seed) : random_(seed) {}

  // The attempt after `attempts` more fails, once.
  void FailAfter(uint32_t attempts) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    fail_after_ = attempts;
  }
  void Heal() ES_EXCLUDES(mutex_) { FailAfter(kNever); }

  int64_t ReadSome(uint64_t offset, std::span<std::byte> out) override ES_EXCLUDES(mutex_) {
    uint32_t pauses = 0;
    bool fails = false;
    {
      MutexLock lock(mutex_);
      pauses = random_() % 8;
      if (random_() % 4 == 0) out = out.first(kPageBytes);
      fails = fail_after_ == 0;
      if (fails) {
        fail_after_ = kNever;
      } else if (fail_after_ != kNever) {
        --fail_after_;
      }
    }
    while (pauses-- > 0) std::this_thread::yield();
    if (fails) return -EIO;
    testing::FillPattern(out, offset);
    return static_cast<int64_t>(out.size());
  }
  int descriptor() const override { return -1; }
  uint64_t size_now() const override { return FileOffset(kLayers, 0); }
  const std::string& name() const override { return name_; }
  bool direct() const override { return true; }
  std::string buffered_reason() const override { return ""; }
  void GoBuffered(int) override {}
  void DropBehind(uint64_t, uint64_t) override {}

 private:
  static constexpr uint32_t kNever = UINT32_MAX;
  const std::string name_ = "unsteady.gguf";
  Mutex mutex_;
  std::mt19937 random_ ES_GUARDED_BY(mutex_);
  uint32_t fail_after_ ES_GUARDED_BY(mutex_) = kNever;
};

// Looks at a call's records when it is submitted and again when it is waited for, as a device with a queue would.
class LateDevice final : public HostDevice {
 public:
  struct Ran {
    uint32_t layer, expert;
    bool operator==(const Ran&) const = default;
  };
  static constexpr uint32_t kNever = UINT32_MAX;

  uint32_t fail_submit_after = kNever;
  uint32_t fail_wait_after = kNever;
  std::vector<Ran> ran;  // completed routes

  using HostDevice::Submit;
  Result<Ticket> Submit(const ExpertInvocation& call) override {
    if (fail_submit_after != kNever && fail_submit_after-- == 0) return Status::Device("injected");
    Call queued{++last_, {}};
    for (uint32_t i = 0; i < call.route_count; ++i) {
      const uint32_t expert = At<Route>(call.routes)[i].expert;
      queued.routes.push_back({RecordOf(call, expert), {call.graph, expert}});
    }
    Check(queued);
    queue_.push_back(std::move(queued));
    return last_;
  }
  Status Wait(Ticket ticket) override {
    Status status;
    while (!queue_.empty() && queue_.front().ticket <= ticket) {
      const Call call = std::move(queue_.front());
      queue_.erase(queue_.begin());
      Check(call);
      for (const auto& [record, route] : call.routes) ran.push_back(route);
      if (fail_wait_after != kNever && fail_wait_after-- == 0) status = Status::Device("injected");
    }
    return status;
  }

 private:
  struct Call {
    Ticket ticket = 0;
    std::vector<std::pair<const std::byte*, Ran>> routes;
  };
  static void Check(const Call& call) {
    for (const auto& [record, route] : call.routes) {
      ASSERT_NE(record, nullptr);
      ASSERT_TRUE(testing::HasPattern({record, kRecordBytes}, FileOffset(route.layer, route.expert)))
          << "layer " << route.layer << " expert " << route.expert;
    }
  }

  std::vector<Call> queue_;
  Ticket last_ = 0;
};

struct Config {
  const char* name;
  Schedule schedule;
  StreamShape shape;
  bool keep_warm;
};

class StreamingStressTest : public ::testing::TestWithParam<Config> {
 protected:
  // A request is so many steps: its start, then begin and run of every layer.
  static constexpr uint32_t kSteps = 1 + 2 * kLayers;

  void SetUp() override {
    routes_ = device_.Allocate(kLayers * kMostRoutes * sizeof(Route), "routes").value();
    Open();
  }
  void TearDown() override {
    stream_.reset();
    device_.Free(routes_);
    EXPECT_EQ(device_.buffers(), 0u) << "seed " << seed_;
  }

  void Open() {
    StreamOptions options;
    options.schedule = GetParam().schedule;
    options.shape = GetParam().shape;
    options.expert_count = kExperts;
    options.slot_stride = kRecordBytes;
    options.max_routes = kMaxRoutes;
    options.engine = ReadEngineOptions::Kind::kThreads;
    options.keep_warm = GetParam().keep_warm;
    options.clock = &compute_;
    std::vector<StreamedLayer> layers;
    for (uint32_t l = 0; l < kLayers; ++l) layers.push_back({l, FileOffset(l, 0), kRecordBytes});
    stream_ = StreamingExperts::Create(file_, std::move(layers), options, &device_).value();
  }

  // The first `steps` steps of a request with random routes.
  Status RunSteps(uint32_t steps) {
    expected_.clear();
    device_.ran.clear();
    for (uint32_t step = 0; step < steps; ++step) {
      const uint32_t layer = (step - 1) / 2;
      if (step == 0) {
        ES_RETURN_IF_ERROR(stream_->StartRequest({}));
      } else if (step % 2 == 1) {
        stream_->Begin(layer);
      } else {
        ES_RETURN_IF_ERROR(RunLayer(layer));
      }
    }
    return Status::Ok();
  }

  Status RunLayer(uint32_t layer) {
    Route* routes = routes_.as<Route>() + layer * kMostRoutes;
    ExpertWork work;
    work.layer = layer;
    work.tokens = 1;
    for (uint32_t e = 0; e < kExperts; ++e) {
      const auto draw = static_cast<uint32_t>(random_() % 8);  // half of the experts have none, others up to four
      for (uint32_t n = 4; n <= draw; ++n) {
        routes[work.route_count++] = {e, 0, 1};
        expected_.push_back({layer, e});
      }
    }
    work.host_routes = routes;
    work.routes = routes_.ref(layer * kMostRoutes * sizeof(Route));
    return stream_->Run(work);
  }

  // A whole request without faults.
  void ExpectWell() {
    const Status status = RunSteps(kSteps);
    ASSERT_TRUE(status.ok()) << status.message() << ", seed " << seed_;
    EXPECT_EQ(device_.ran, expected_) << "seed " << seed_;
    stream_->EndRequest();
  }

  void ExpectNoMoreReads() {
    const uint64_t reads = stream_->counts().reads;
    for (int i = 0; i < 30; ++i) std::this_thread::yield();
    EXPECT_EQ(stream_->counts().reads, reads) << "seed " << seed_;
  }

  static constexpr uint32_t kMostRoutes = 4 * kExperts;

  const testing::Watchdog watchdog_{"streaming under stress"};
  const uint32_t seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  std::shared_ptr<UnsteadyFile> file_ = std::make_shared<UnsteadyFile>(seed_);
  LateDevice device_;
  ComputeClock compute_;
  DeviceBuffer routes_;
  std::unique_ptr<StreamingExperts> stream_;
  std::vector<LateDevice::Ran> expected_;
};

TEST_P(StreamingStressTest, ARequestMayEndAtEveryPoint) {
  for (uint32_t round = 0; round < 5; ++round) {
    for (uint32_t steps = 0; steps <= kSteps; ++steps) {
      SCOPED_TRACE(fmt::format("after {} steps", steps));
      ASSERT_TRUE(RunSteps(steps).ok());
      stream_->EndRequest();
      ASSERT_NO_FATAL_FAILURE(ExpectWell());
    }
  }
}

TEST_P(StreamingStressTest, AStreamMayGoAwayAtEveryPoint) {
  for (uint32_t steps = 0; steps <= kSteps; ++steps) {
    SCOPED_TRACE(fmt::format("after {} steps", steps));
    ASSERT_TRUE(RunSteps(steps).ok());
    if (random_() % 2 == 0) stream_->EndRequest();
    stream_.reset();
    EXPECT_EQ(device_.buffers(), 1u) << "its arena and tables are freed";
    Open();
    ASSERT_NO_FATAL_FAILURE(ExpectWell());
  }
}

TEST_P(StreamingStressTest, EveryReadMayFail) {
  uint32_t failed = 0;
  for (uint32_t attempt = 0; attempt < 30; ++attempt) {
    SCOPED_TRACE(fmt::format("attempt {}", attempt));
    file_->FailAfter(attempt);
    const Status status = RunSteps(kSteps);
    file_->Heal();
    stream_->EndRequest();
    // The read may have been of a group that nobody routed to: that fails nothing.
    if (!status.ok()) {
      ++failed;
      EXPECT_EQ(status.code(), StatusCode::kIo);
      EXPECT_THAT(status.message(), ::testing::HasSubstr("unsteady.gguf"));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectWell());
  }
  EXPECT_GT(failed, 0u) << "seed " << seed_;
}

TEST_P(StreamingStressTest, EveryCallMayFailWhenSubmittedOrLater) {
  for (uint32_t* fail_after : {&device_.fail_submit_after, &device_.fail_wait_after}) {
    uint32_t failed = 0;
    for (uint32_t call = 0; call < 30; ++call) {
      SCOPED_TRACE(fmt::format("call {}", call));
      *fail_after = call;
      const Status status = RunSteps(kSteps);
      *fail_after = LateDevice::kNever;
      stream_->EndRequest();
      if (!status.ok()) {
        ++failed;
        EXPECT_EQ(status.code(), StatusCode::kDevice);
        if (!GetParam().keep_warm) ExpectNoMoreReads();
      }
      ASSERT_NO_FATAL_FAILURE(ExpectWell());
    }
    EXPECT_GT(failed, 0u) << "seed " << seed_;
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, StreamingStressTest,
                         ::testing::Values(Config{"Smallest", Schedule::kStream, {2, 2, 1}, false},
                                           Config{"Deep", Schedule::kStream, {1, 4, 3}, false},
                                           Config{"Warm", Schedule::kStream, {2, 3, 3}, true},
                                           Config{"PerLayer", Schedule::kPerLayer, {2, 2, 2}, true},
                                           Config{"AfterRouting", Schedule::kAfterRouting, {1, 2, 2}, false},
                                           Config{"OnDemand", Schedule::kOnDemand, {2, 1, 1}, false},
                                           Config{"WholeLayers", Schedule::kLayerAll, {kExperts, 3, 2}, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace estream
