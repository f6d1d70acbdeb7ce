// SPDX-License-Identifier: Apache-2.0
// Each thread takes the next window, fills it, waits for its turn to hash it, and hands it on. Windows are given out in
// file order, so whoever waits waits only for windows that somebody is already filling.
#include "pack/unit_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "base/thread_pool.h"

namespace estream {
namespace {

constexpr uint64_t kMemoryBytes = 64 << 20;
constexpr uint64_t kMinWindowBytes = 1 << 20;
constexpr uint64_t kMaxWindowBytes = 8 << 20;
constexpr uint32_t kMaxThreads = 32;

// Where hashing stands, and whether to go on.
class Turns {
 public:
  explicit Turns(const UnitPipeline& pipeline) : pipeline_(pipeline), unit_(pipeline.first_unit) {}

  bool stopped() const { return stopped_; }

  // Waits for the turn of window `index`, then takes it in. Returns whether its bytes are to be handed on.
  bool Take(uint64_t index, const PackWindow& window, const Status& filled, std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return next_ == index || stopped_; });
    if (stopped_) return false;
    if (pipeline_.cancel != nullptr && *pipeline_.cancel) return StopLocked(Status::Cancelled("stopped"));
    if (!filled.ok()) return StopLocked(filled);
    const bool go_on = Hash(window, bytes);
    if (pipeline_.on_progress) pipeline_.on_progress(window.bytes);
    ++next_;
    if (!go_on) StopLocked(Status::Ok());
    turn_.notify_all();
    return true;
  }

  void Stop(Status status) {
    const std::lock_guard lock(mutex_);
    if (!stopped_) StopLocked(std::move(status));
  }

  Status status() const { return status_; }

 private:
  bool StopLocked(Status status) {
    status_ = std::move(status);
    stopped_ = true;
    turn_.notify_all();
    return false;
  }

  // Feeds a window to the hash; returns false when on_unit has seen enough.
  bool Hash(const PackWindow& window, std::span<const std::byte> bytes) {
    const PackRegion& region = pipeline_.regions[window.region];
    uint64_t at = window.first;
    while (!bytes.empty()) {
      const uint64_t unit_end = std::min(region.bytes, (at / region.unit_bytes + 1) * region.unit_bytes);
      const auto take = static_cast<size_t>(std::min<uint64_t>(bytes.size(), unit_end - at));
      hash_.Update(bytes.first(take));
      bytes = bytes.subspan(take);
      at += take;
      if (at == unit_end && !pipeline_.on_unit(unit_++, hash_.Finish())) return false;
    }
    return true;
  }

  const UnitPipeline& pipeline_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::atomic<bool> stopped_{false};
  // Guarded by mutex_:
  uint64_t next_ = 0;
  uint64_t unit_;
  HashStream hash_;
  Status status_;
};

}  // namespace

std::vector<PackWindow> CutWindows(const std::vector<PackRegion>& regions, uint64_t first_unit, uint64_t max_bytes) {
  std::vector<PackWindow> windows;
  for (uint32_t r = 0; r < regions.size(); ++r) {
    const PackRegion& region = regions[r];
    const uint64_t skipped = first_unit > region.first_unit ? first_unit - region.first_unit : 0;
    for (uint64_t at = std::min(region.bytes, skipped * region.unit_bytes); at < region.bytes;) {
      uint64_t end = std::min(region.bytes, at + max_bytes);
      if (end < region.bytes && end / region.unit_bytes > at / region.unit_bytes) end -= end % region.unit_bytes;
      windows.push_back({r, at, end - at});
      at = end;
    }
  }
  return windows;
}

uint64_t WindowBytes(uint32_t threads) {
  return std::clamp(kMemoryBytes / (2 * uint64_t{threads}) & ~(kPageBytes - 1), kMinWindowBytes, kMaxWindowBytes);
}

uint32_t PipelineThreads(uint32_t processors) {
  if (processors == 0) processors = UsableProcessors();
  return std::min(kMaxThreads, processors + 2);
}

Status UnitPipeline::Run() const {
  const uint64_t window_bytes = WindowBytes(threads);
  const std::vector<PackWindow> windows = CutWindows(regions, first_unit, window_bytes);
  std::vector<AlignedBuffer> buffers(threads);
  for (AlignedBuffer& buffer : buffers) {
    ES_ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(window_bytes));
  }
  Turns turns(*this);
  ThreadPool pool(threads);
  pool.RunInOrder(windows.size(), [&](uint32_t thread, uint64_t index) {
    if (turns.stopped()) return;
    const PackWindow& window = windows[index];
    const std::span<std::byte> bytes = buffers[thread].span().first(window.bytes);
    const Status filled = fill(thread, window, bytes);
    if (!turns.Take(index, window, filled, bytes) || !hand_on) return;
    if (Status status = hand_on(window, bytes); !status.ok()) turns.Stop(std::move(status));
  });
  return turns.status();
}

}  // namespace estream
