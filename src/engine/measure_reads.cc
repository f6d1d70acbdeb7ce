// SPDX-License-Identifier: Apache-2.0
// With q reads in flight, N of which take a time T, a read takes q · T / N (Little's law), in whatever order the
// storage serves them.
#include "engine/measure_reads.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "base/mutex.h"
#include "base/trace.h"

namespace estream {
namespace {

constexpr uint64_t kBufferBytes = uint64_t{256} << 20;
constexpr uint64_t kMostInFlight = uint64_t{1} << 30;
// Each point is measured so often, all others in between, and its fastest round counts: storage that stands still for
// seconds (other work, a cache behind it that is still cold) would otherwise foretell passes many times too long.
constexpr uint32_t kRounds = 2;
// Reads in flight of so many bytes keep any storage busy, so that each depth needs to be filled only once.
constexpr uint64_t kBusyBytes = uint64_t{64} << 20;

// The next group of a size among the largest records, round and round their layers, so that what a point reads was not
// read just before.
class GroupWalk {
 public:
  GroupWalk(const PackFile& pack, const ModelPlan& plan) : experts_(plan.experts) {
    for (const uint32_t l : plan.sparse_layers) {
      if (pack.experts(l).record_bytes == plan.expert_stride) layers_.push_back(pack.experts(l).offset);
    }
    stride_ = plan.expert_stride;
  }

  uint64_t first_offset() const { return layers_[0]; }

  uint64_t NextOffset(uint32_t group_size) {
    if (position_ + group_size > experts_) {
      position_ = 0;
      layer_ = (layer_ + 1) % layers_.size();
    }
    const uint64_t offset = layers_[layer_] + position_ * stride_;
    position_ += group_size;
    return offset;
  }

 private:
  const uint32_t experts_;
  std::vector<uint64_t> layers_;
  uint64_t stride_ = 0;
  size_t layer_ = 0;
  uint32_t position_ = 0;
};

// Keeps `depth` reads in flight; the caller's thread submits, so that the walk needs no lock.
class ReadLoop : private ReadSink {
 public:
  explicit ReadLoop(ReadEngine* engine) : engine_(engine) {}

  Status Submit(ReadRequest request) ES_EXCLUDES(mutex_) {
    request.sink = this;
    {
      MutexLock lock(mutex_);
      ++in_flight_;
    }
    const Status status = engine_->Submit(request);
    if (!status.ok()) OnRead(0, status);
    return status;
  }

  // Returns when fewer than `limit` are in flight. Errors: of any read.
  Status WaitBelow(uint32_t limit) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (in_flight_ >= limit) changed_.Wait(mutex_);
    return status_;
  }

 private:
  void OnRead(uint64_t, const Status& status) override ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = status;
    --in_flight_;
    changed_.NotifyAll();  // under the lock: the waiter may destroy this as soon as it has it
  }

  ReadEngine* const engine_;
  Mutex mutex_;
  CondVar changed_;
  uint32_t in_flight_ ES_GUARDED_BY(mutex_) = 0;
  Status status_ ES_GUARDED_BY(mutex_);
};

// One point. Pre: a group fits the buffer.
Result<ReadTime> MeasurePoint(ReadEngine* engine, GroupWalk* walk, uint32_t group_size, uint64_t group_bytes,
                              std::span<std::byte> buffer, const ReadMeasureOptions& options) {
  const uint32_t depth = engine->depth();
  // Where not all fit the buffer, reads in flight share memory: nobody looks at what they bring.
  const uint64_t windows = std::min<uint64_t>(depth, buffer.size() / group_bytes);
  const uint64_t least = group_bytes * depth >= kBusyBytes ? std::max(depth, 2u) : 2 * depth;
  ReadLoop loop(engine);
  uint64_t count = 0;
  const uint64_t begin = NowNs();
  const auto until = begin + static_cast<uint64_t>(options.seconds * 1e9);
  Status status;
  for (; status.ok() && (count < least || NowNs() < until); ++count) {
    ReadRequest request;
    request.offset = walk->NextOffset(group_size);
    request.bytes = group_bytes;
    request.dest = buffer.data() + count % windows * group_bytes;
    status = loop.Submit(request);
    if (status.ok()) status = loop.WaitBelow(depth);
  }
  const Status drained = loop.WaitBelow(1);
  ES_RETURN_IF_ERROR(status);
  ES_RETURN_IF_ERROR(drained);
  const double ns = static_cast<double>(NowNs() - begin) * depth / static_cast<double>(count);
  return ReadTime{group_bytes, depth, std::max<uint64_t>(1, static_cast<uint64_t>(ns))};
}

// Every point once, by depth, then size.
class PointWalk {
 public:
  PointWalk(std::shared_ptr<RecordFile> file, const ModelPlan& plan, GroupWalk* walk, std::span<std::byte> buffer,
            const ReadMeasureOptions& options)
      : file_(std::move(file)), stride_(plan.expert_stride), walk_(walk), buffer_(buffer), options_(options) {}

  Result<std::vector<ReadTime>> Run() {
    std::vector<ReadTime> times;
    for (const uint32_t depth : options_.depths) {
      ReadEngineOptions engine_options;
      engine_options.kind = options_.engine;
      engine_options.depth = depth;
      ES_ASSIGN_OR_RETURN(const auto engine, MakeReadEngine({file_}, {buffer_}, engine_options));
      ReadLoop pin(engine.get());  // the first read pins the buffer
      ES_RETURN_IF_ERROR(pin.Submit({0, walk_->first_offset(), kPageBytes, buffer_.data(), 0, nullptr}));
      ES_RETURN_IF_ERROR(pin.WaitBelow(1));
      for (const uint32_t g : options_.group_sizes) {
        if (options_.cancel != nullptr && *options_.cancel) return Status::Cancelled("interrupted");
        Progress();
        const uint64_t bytes = g * stride_;
        if (bytes > buffer_.size() || (bytes > stride_ && bytes * depth > kMostInFlight)) continue;
        ES_ASSIGN_OR_RETURN(const ReadTime time, MeasurePoint(engine.get(), walk_, g, bytes, buffer_, options_));
        times.push_back(time);
      }
    }
    return times;
  }

 private:
  void Progress() {
    const double all = static_cast<double>(kRounds * options_.depths.size() * options_.group_sizes.size());
    if (options_.progress) options_.progress(done_++ / all);
  }

  const std::shared_ptr<RecordFile> file_;
  const uint64_t stride_;
  GroupWalk* const walk_;
  const std::span<std::byte> buffer_;
  const ReadMeasureOptions& options_;
  double done_ = 0;
};

}  // namespace

Result<std::vector<ReadTime>> MeasureReads(const PackFile& pack, const ModelPlan& plan,
                                           const ReadMeasureOptions& options) {
  ES_ASSIGN_OR_RETURN(std::shared_ptr<RecordFile> file, OpenRecordFile(pack.path()));
  const uint64_t largest = *std::max_element(options.group_sizes.begin(), options.group_sizes.end());
  ES_ASSIGN_OR_RETURN(
      AlignedBuffer buffer,
      AlignedBuffer::Allocate(
          std::max(plan.expert_stride, std::min(kBufferBytes, options.depths.back() * largest * plan.expert_stride))));
  std::fill(buffer.span().begin(), buffer.span().end(), std::byte{0});  // page faults are not the storage's
  GroupWalk walk(pack, plan);
  PointWalk points(std::move(file), plan, &walk, buffer.span(), options);
  ES_ASSIGN_OR_RETURN(std::vector<ReadTime> times, points.Run());
  for (uint32_t round = 1; round < kRounds; ++round) {
    ES_ASSIGN_OR_RETURN(const std::vector<ReadTime> again, points.Run());
    for (size_t i = 0; i < times.size(); ++i) times[i].ns = std::min(times[i].ns, again[i].ns);
  }
  return times;
}

}  // namespace estream
