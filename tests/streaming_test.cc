// SPDX-License-Identifier: Apache-2.0
// Streaming gives the bits of a resident run, with int8 and with float activations, whatever the group size, banks,
// depth, storage engine, schedule, threads, delays of storage or device; a failing read fails its request only.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "base/aligned_buffer.h"
#include "pipeline/streaming_experts.h"
#include "tests/model_rig.h"
#include "tests/oracle.h"
#include "tests/sanitized.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using testing::LoadOracle;
using testing::MakeRig;
using testing::ModelRig;
using testing::OracleModelPath;

constexpr const char* kModel = "olmoe-k-q4_k_m";  // two shape classes, 8 experts a layer

// All expert records of a model, layer by layer, as a pack stores them.
class ExpertFile {
 public:
  explicit ExpertFile(ModelRig& rig) {
    std::ofstream out(path(), std::ios::binary);
    uint64_t offset = 0;
    for (uint32_t l = 0; l < rig.plan->layers.size(); ++l) {
      const uint64_t bytes = rig.plan->expert_classes[rig.plan->layers[l].expert_class].record_bytes;
      layers_.push_back({rig.graphs.layers[l].experts, offset, bytes});
      std::vector<std::byte> record(bytes);
      for (uint32_t e = 0; e < rig.plan->experts; ++e) {
        EXPECT_TRUE(rig.source->ReadRecord(ExpertRecord(*rig.plan, l, e), record).ok());
        out.write(reinterpret_cast<const char*>(record.data()), static_cast<std::streamsize>(bytes));
        offset += bytes;
      }
    }
    EXPECT_TRUE(out.good());
  }

  std::string path() const { return dir_.path() + "/experts.bin"; }
  const std::vector<StreamedLayer>& layers() const { return layers_; }

 private:
  TempDir dir_;
  std::vector<StreamedLayer> layers_;
};

// A file whose reads take a random while, come in pieces, and fail at the k-th attempt.
class UnevenFile : public WrappedFile {
 public:
  UnevenFile(std::shared_ptr<RecordFile> file, uint32_t seed, int64_t fail_at = -1)
      : WrappedFile(std::move(file)), random_(seed), fail_at_(fail_at) {}

  int64_t ReadSome(uint64_t offset, std::span<std::byte> out) override {
    uint32_t delay_us, part;
    {
      std::lock_guard lock(mutex_);
      if (fail_at_ >= 0 && reads_++ == fail_at_) return -EIO;
      delay_us = random_() % 400;
      part = random_() % 4;
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(delay_us);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    if (part == 0 && out.size() > kPageBytes) out = out.first(kPageBytes);  // a short read
    return WrappedFile::ReadSome(offset, out);
  }

 private:
  std::mutex mutex_;
  std::mt19937 random_;  // guarded by mutex_
  int64_t reads_ = 0;    // guarded by mutex_
  const int64_t fail_at_;
};

// A device that runs calls only when they are waited for, as one with a queue may: a bank reused too soon shows.
class LateDevice : public Device {
 public:
  explicit LateDevice(Device* device) : device_(device) {}
  const DeviceTraits& traits() const override { return device_->traits(); }
  Result<DeviceBuffer> Allocate(uint64_t bytes, std::string_view name) override {
    return device_->Allocate(bytes, name);
  }
  void Free(const DeviceBuffer& buffer) override { device_->Free(buffer); }
  Result<uint32_t> Build(const ExpertSpec& s, const Capacity& c) override { return device_->Build(s, c); }
  Result<uint32_t> Build(const BlockSpec& s, const Capacity& c) override { return device_->Build(s, c); }
  void Drop(uint32_t graph) override { device_->Drop(graph); }
  Result<Ticket> Submit(const ExpertInvocation& call) override { return Queue(call); }
  Result<Ticket> Submit(const BlockInvocation& call) override { return Queue(call); }
  Status Wait(Ticket ticket) override {
    Status first;
    while (done_ < ticket) {
      const auto call = std::move(queue_[done_++]);
      const auto result = std::visit([&](const auto& c) { return device_->Submit(c); }, call);
      if (!result.ok() && first.ok()) first = result.status();
    }
    return first;
  }

 private:
  template <class Call>
  Result<Ticket> Queue(const Call& call) {
    queue_.emplace_back(call);
    return queue_.size();
  }

  Device* const device_;
  std::vector<std::variant<ExpertInvocation, BlockInvocation>> queue_;
  Ticket done_ = 0;
};

// Makes a prefill of `rig` whose experts stream from `file`.
struct StreamRig {
  std::unique_ptr<StreamingExperts> experts;
  std::unique_ptr<Prefill> prefill;
};

Result<StreamRig> MakeStream(ModelRig& rig, std::shared_ptr<RecordFile> file, const ExpertFile& records,
                             StreamOptions options, Device* device) {
  options.expert_count = rig.plan->experts;
  options.slot_stride = rig.plan->expert_stride;
  options.max_routes = 256;
  options.clock = &rig.clock;
  StreamRig stream;
  ES_ASSIGN_OR_RETURN(stream.experts, StreamingExperts::Create(std::move(file), records.layers(), options, device));
  ES_ASSIGN_OR_RETURN(stream.prefill, Prefill::Create({rig.plan.get(), &rig.graphs, &rig.blocks, stream.experts.get(),
                                                       rig.source.get(), device, &rig.clock},
                                                      64));
  return stream;
}

Result<std::vector<float>> Logits(Prefill& prefill, std::span<const int32_t> tokens) {
  std::vector<float> all;
  const uint32_t rows[] = {0, static_cast<uint32_t>(tokens.size() - 1)};
  const auto counts = prefill.Run(tokens, tokens.size() > 1 ? std::span(rows) : std::span(rows, 1),
                                  [&](uint32_t, std::span<const float> logits) {
                                    all.insert(all.end(), logits.begin(), logits.end());
                                    return Status::Ok();
                                  });
  if (!counts.ok()) return counts.status();
  return all;
}

class StreamingTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto rig = MakeRig(OracleModelPath(kModel), "cpu", 2, 64, 256, nullptr, GetParam());
    ASSERT_TRUE(rig.ok()) << rig.status().message();
    rig_ = std::move(*rig);
    records_ = std::make_unique<ExpertFile>(*rig_);
    auto file = OpenRecordFile(records_->path());
    ASSERT_TRUE(file.ok()) << file.status().message();
    file_ = *file;
    const auto oracle = LoadOracle(kModel);
    for (const char* name : {"p64", "seven", "one"}) {
      prompts_.push_back(oracle.at(name).tokens());
      auto logits = Logits(*rig_->prefill, prompts_.back());
      ASSERT_TRUE(logits.ok()) << logits.status().message();
      resident_.push_back(*logits);
    }
  }

  // Every prompt, twice, on one engine: the second round meets warm banks.
  void ExpectResidentBits(std::shared_ptr<RecordFile> file, const StreamOptions& options, Device* device) {
    auto stream = MakeStream(*rig_, std::move(file), *records_, options, device);
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    for (size_t round = 0; round < 2 * prompts_.size(); ++round) {
      const size_t i = round % prompts_.size();
      auto logits = Logits(*stream->prefill, prompts_[i]);
      ASSERT_TRUE(logits.ok()) << logits.status().message();
      ASSERT_EQ(*logits, resident_[i]) << "prompt " << i << ", round " << round;
    }
  }

  std::unique_ptr<ModelRig> rig_;
  std::unique_ptr<ExpertFile> records_;
  std::shared_ptr<RecordFile> file_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<std::vector<float>> resident_;
};

INSTANTIATE_TEST_SUITE_P(Activations, StreamingTest, ::testing::Values("q8", "f32"));

constexpr Schedule kStreaming[] = {Schedule::kStream, Schedule::kPerLayer, Schedule::kAfterRouting,
                                   Schedule::kOnDemand};
constexpr Schedule kOwnShape[] = {Schedule::kNaive, Schedule::kLayer2, Schedule::kLayerAll, Schedule::kGraphPerExpert};

TEST_P(StreamingTest, EqualsResidentForEveryShapeScheduleAndStorageEngine) {
  constexpr uint32_t kEvery = kEmulated ? 31 : kSanitized ? 5 : 1;  // odd: both engines take part
  uint32_t runs = 0;
  for (const Schedule schedule : kStreaming) {
    for (const uint32_t group : {1u, 2u, 4u, 8u, 3u}) {  // 8 = E; 3 leaves a short last group
      for (const uint32_t banks : {1u, 2u, 3u, 5u}) {
        for (uint32_t depth = 1; depth <= std::min(banks, 3u); ++depth) {
          StreamOptions options;
          options.schedule = schedule;
          options.shape = {group, banks, depth};
          if (!CheckShape(schedule, options.shape, rig_->plan->experts).ok()) continue;
          for (const auto engine : {ReadEngineOptions::Kind::kAuto, ReadEngineOptions::Kind::kThreads}) {
            if (++runs % kEvery != 0) continue;
            SCOPED_TRACE(fmt::format("{} G={} B={} Q={} engine {}", ScheduleName(schedule), group, banks, depth,
                                     static_cast<int>(engine)));
            options.engine = engine;
            ASSERT_NO_FATAL_FAILURE(ExpectResidentBits(file_, options, rig_->device.get()));
          }
        }
      }
    }
  }
}

TEST_P(StreamingTest, EqualsResidentForSchedulesWithAShapeOfTheirOwn) {
  for (const Schedule schedule : kOwnShape) {
    SCOPED_TRACE(ScheduleName(schedule));
    StreamOptions options;
    options.schedule = schedule;
    options.shape = *ResolveShape(schedule, {0, 0, 0}, rig_->plan->experts, rig_->plan->layers.size());
    options.build_graph = [this](uint32_t layer) {
      const uint32_t expert_class = rig_->plan->layers[rig_->plan->sparse_layers[layer]].expert_class;
      return rig_->device->Build(rig_->plan->expert_classes[expert_class], {64, 256});
    };
    ASSERT_NO_FATAL_FAILURE(ExpectResidentBits(file_, options, rig_->device.get()));
  }
}

TEST_P(StreamingTest, UnevenStorageAndALateDeviceChangeNoBit) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  for (const Schedule schedule : kStreaming) {
    for (const StreamShape& shape : {StreamShape{1, 2, 2}, {4, 2, 1}, {2, 3, 2}, {1, 5, 4}}) {
      SCOPED_TRACE(fmt::format("{} G={} B={} Q={}", ScheduleName(schedule), shape.group_size, shape.bank_count,
                               shape.queue_depth));
      StreamOptions options;
      options.schedule = schedule;
      options.shape = shape;
      options.keep_warm = shape.bank_count > 2;
      LateDevice late(rig_->device.get());
      ASSERT_NO_FATAL_FAILURE(ExpectResidentBits(std::make_shared<UnevenFile>(file_, seed), options, &late));
    }
  }
}

TEST_P(StreamingTest, AReadThatFailsFailsItsRequestAndTheNextOneIsWell) {
  StreamOptions options;
  options.shape = {2, 3, 2};
  for (int64_t fail_at = 0;; ++fail_at) {
    auto stream =
        MakeStream(*rig_, std::make_shared<UnevenFile>(file_, 1, fail_at), *records_, options, rig_->device.get());
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    const auto logits = Logits(*stream->prefill, prompts_[0]);
    if (logits.ok()) {
      EXPECT_EQ(*logits, resident_[0]);
      EXPECT_GT(fail_at, 4) << "several reads must have been failed before one request ran well";
      break;
    }
    EXPECT_EQ(logits.status().code(), StatusCode::kIo);
    EXPECT_THAT(logits.status().message(), ::testing::HasSubstr("experts.bin"));
    const auto again = Logits(*stream->prefill, prompts_[0]);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, resident_[0]);
  }
}

TEST_P(StreamingTest, UnroutedGroupsAreNotReadAfterRouting) {
  StreamOptions options;
  options.schedule = Schedule::kAfterRouting;
  options.shape = {1, 3, 2};
  auto stream = MakeStream(*rig_, file_, *records_, options, rig_->device.get());
  ASSERT_TRUE(stream.ok()) << stream.status().message();
  ASSERT_TRUE(Logits(*stream->prefill, prompts_[2]).ok());
  const StreamCounts counts = stream->experts->counts();
  EXPECT_EQ(counts.reads, rig_->plan->layers.size() * rig_->plan->top_k) << "one token needs k experts a layer";
  EXPECT_EQ(counts.wasted_reads, 0u);
}

TEST_P(StreamingTest, NeitherWholeGroupsNorAnotherEarlyOrderChangesABit) {
  for (const uint32_t group : {1u, 3u, 4u}) {
    for (const bool sparse : {false, true}) {
      StreamOptions options;
      options.shape = {group, 3, 2};
      options.sparse_reads = sparse;
      options.early_order = EarlyOrder::kPrevious;
      ASSERT_NO_FATAL_FAILURE(ExpectResidentBits(file_, options, rig_->device.get()));
    }
  }
}

TEST_P(StreamingTest, AShapeTheScheduleCannotRunIsRefused) {
  for (const StreamShape& shape : {StreamShape{0, 3, 2}, {9, 3, 2}, {4, 1, 1}, {4, 3, 0}, {4, 3, 4}}) {
    StreamOptions options;
    options.shape = shape;
    EXPECT_EQ(MakeStream(*rig_, file_, *records_, options, rig_->device.get()).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(Schedule, NamesRoundTripAndUnknownOnesListTheKnown) {
  for (const Schedule s : kStreaming) EXPECT_EQ(*ParseSchedule(ScheduleName(s)), s);
  for (const Schedule s : kOwnShape) EXPECT_EQ(*ParseSchedule(ScheduleName(s)), s);
  EXPECT_THAT(ParseSchedule("fast").status().message(), ::testing::HasSubstr("per-layer"));
}

// The shape as text: "G B Q", or what is wrong.
std::string Resolved(Schedule schedule, const StreamShape& asked, uint32_t experts = 64, uint32_t layers = 16) {
  const auto shape = ResolveShape(schedule, asked, experts, layers);
  if (!shape.ok()) return shape.status().message();
  return fmt::format("{} {} {}", shape->group_size, shape->bank_count, shape->queue_depth);
}

TEST(Schedule, ShapesAreTheAskedTheDefaultOrTheSchedulesOwn) {
  EXPECT_EQ(Resolved(Schedule::kStream, {0, 0, 0}), "2 6 2");
  EXPECT_EQ(Resolved(Schedule::kStream, {0, 0, 0}, 1), "1 6 2");
  EXPECT_EQ(Resolved(Schedule::kOnDemand, {8, 1, 0}), "8 1 1");
  EXPECT_EQ(Resolved(Schedule::kStream, {65, 0, 0}), "--group 65: expected 1..64, the experts of a layer");
  EXPECT_EQ(Resolved(Schedule::kStream, {0, 1, 0}), "--banks 1: schedule \"stream\" needs at least 2");
  EXPECT_EQ(Resolved(Schedule::kStream, {0, 0, 8}), "--queue-depth 8: expected 1..6, the number of banks");
  EXPECT_EQ(Resolved(Schedule::kNaive, {0, 0, 0}), "1 3 1");
  EXPECT_EQ(Resolved(Schedule::kLayer2, {64, 0, 0}), "64 2 2");
  EXPECT_EQ(Resolved(Schedule::kLayerAll, {0, 0, 0}), "64 16 2");
  EXPECT_EQ(Resolved(Schedule::kLayerAll, {0, 0, 0}, 64, 1), "64 1 1");
  EXPECT_EQ(Resolved(Schedule::kGraphPerExpert, {0, 0, 0}), "1 1 1");
  EXPECT_EQ(Resolved(Schedule::kNaive, {0, 0, 2}), "--queue-depth 2: schedule \"naive\" has 1 of its own");
}

}  // namespace
}  // namespace estream
