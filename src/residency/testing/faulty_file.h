// SPDX-License-Identifier: Apache-2.0
// A record file in memory that fails, stops short and blocks when told to.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "residency/record_file.h"

namespace estream::testing {

// Threads: any.
class FaultyFile final : public RecordFile {
 public:
  explicit FaultyFile(std::vector<std::byte> content) : content_(std::move(content)), size_(content_.size()) {}

  // Call `attempt` of ReadSome, counted from 0, fails once with `error`.
  void FailAt(uint64_t attempt, int error) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    errors_[attempt] = error;
  }
  // No attempt reads more than `bytes`.
  void ReadAtMost(uint64_t bytes) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    most_ = bytes;
  }
  void Truncate(uint64_t bytes) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    size_ = bytes;
  }
  // Direct reads fail with EINVAL, as FUSE's do.
  void RefuseDirect() ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    refuse_direct_ = true;
  }
  // From now on attempts wait until Release.
  void Hold() ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    held_ = true;
  }
  void Release() ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  void WaitUntilHolding(uint32_t attempts) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (holding_ < attempts) changed_.Wait(mutex_);
  }

  uint64_t attempts() const ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return attempts_;
  }
  uint64_t dropped_bytes() const ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return dropped_bytes_;
  }
  uint64_t largest_attempt() const ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return largest_attempt_;
  }

  int64_t ReadSome(uint64_t offset, std::span<std::byte> out) override ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    largest_attempt_ = std::max<uint64_t>(largest_attempt_, out.size());
    const uint64_t attempt = attempts_++;
    ++holding_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    --holding_;
    if (const auto error = errors_.find(attempt); error != errors_.end()) return -error->second;
    if (direct_ && refuse_direct_) return -EINVAL;
    if (offset >= size_) return 0;
    const uint64_t bytes = std::min<uint64_t>({out.size(), size_ - offset, most_});
    std::memcpy(out.data(), content_.data() + offset, bytes);
    return static_cast<int64_t>(bytes);
  }
  int descriptor() const override { return -1; }
  uint64_t size_now() const override ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return size_;
  }
  const std::string& name() const override { return name_; }
  bool direct() const override ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return direct_;
  }
  std::string buffered_reason() const override { return direct() ? "" : "refused"; }
  void GoBuffered(int) override ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    direct_ = false;
  }
  void DropBehind(uint64_t, uint64_t bytes) override ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    dropped_bytes_ += bytes;
  }

 private:
  const std::vector<std::byte> content_;
  const std::string name_ = "faulty.gguf";

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, int> errors_ ES_GUARDED_BY(mutex_);
  uint64_t most_ ES_GUARDED_BY(mutex_) = UINT64_MAX;
  uint64_t size_ ES_GUARDED_BY(mutex_);
  bool refuse_direct_ ES_GUARDED_BY(mutex_) = false;
  bool direct_ ES_GUARDED_BY(mutex_) = true;
  bool held_ ES_GUARDED_BY(mutex_) = false;
  uint32_t holding_ ES_GUARDED_BY(mutex_) = 0;
  uint64_t attempts_ ES_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_bytes_ ES_GUARDED_BY(mutex_) = 0;
  uint64_t largest_attempt_ ES_GUARDED_BY(mutex_) = 0;
};

}  // namespace estream::testing
