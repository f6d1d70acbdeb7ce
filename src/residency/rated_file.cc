// SPDX-License-Identifier: Apache-2.0
// Every attempt to read books its bytes in the pipe, then reads, then waits until they have passed.
#include "residency/rated_file.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace estream {
namespace {

class RatedFile final : public WrappedFile {
 public:
  RatedFile(std::shared_ptr<RecordFile> file, uint64_t bytes_per_s, RateClock clock)
      : WrappedFile(std::move(file)), bytes_per_s_(bytes_per_s), clock_(std::move(clock)) {}

  int64_t ReadSome(uint64_t offset, std::span<std::byte> out) override {
    const uint64_t passed_ns = Book(out.size());
    const int64_t result = WrappedFile::ReadSome(offset, out);
    if (result > 0) clock_.sleep_until_ns(passed_ns);
    return result;
  }

 private:
  // When `bytes` more have passed.
  uint64_t Book(uint64_t bytes) ES_EXCLUDES(mutex_) {
    const auto length = static_cast<uint64_t>(1e9 * static_cast<double>(bytes) / static_cast<double>(bytes_per_s_));
    MutexLock lock(mutex_);
    free_ns_ = std::max(free_ns_, clock_.now_ns()) + length;
    return free_ns_;
  }

  const uint64_t bytes_per_s_;
  const RateClock clock_;
  Mutex mutex_;
  uint64_t free_ns_ ES_GUARDED_BY(mutex_) = 0;  // when all that was booked has passed
};

}  // namespace

RateClock RateClock::Steady() {
  using Clock = std::chrono::steady_clock;
  return {
      [] { return static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count()); },
      [](uint64_t ns) { std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(ns))); },
  };
}

std::shared_ptr<RecordFile> MakeRatedFile(std::shared_ptr<RecordFile> file, uint64_t bytes_per_s, RateClock clock) {
  return std::make_shared<RatedFile>(std::move(file), bytes_per_s, std::move(clock));
}

}  // namespace estream
