// SPDX-License-Identifier: Apache-2.0
// A read engine whose reads end when a test says so.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "residency/read_engine.h"
#include "residency/testing/pattern.h"

namespace estream::testing {

// Reads deliver the pattern of their offset (pattern.h), whatever the file.
//
// Threads: any; sinks are called by whoever calls Complete.
class FakeReadEngine final : public ReadEngine {
 public:
  explicit FakeReadEngine(uint32_t depth) : depth_(depth) {}

  Status Submit(const ReadRequest& request) override ES_EXCLUDES(mutex_) {
    ES_RETURN_IF_ERROR(CheckReadRequest(request, UINT32_MAX));
    MutexLock lock(mutex_);
    if (!refusal_.ok()) return refusal_;
    ES_CHECK(pending_.size() < depth_);
    pending_.push_back(request);
    changed_.NotifyAll();
    return Status::Ok();
  }
  // Submit returns `status` from now on.
  void Refuse(Status status) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    refusal_ = std::move(status);
  }

  // The reads in flight, oldest first.
  std::vector<ReadRequest> pending() const ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return pending_;
  }
  void WaitForPending(size_t reads) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (pending_.size() < reads) changed_.Wait(mutex_);
  }
  // Ends the read at `index` of pending(); without a read there, waits for one.
  void Complete(size_t index = 0, const Status& status = Status::Ok()) ES_EXCLUDES(mutex_) {
    ReadRequest request;
    {
      MutexLock lock(mutex_);
      while (pending_.size() <= index) changed_.Wait(mutex_);
      request = pending_[index];
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(index));
    }
    if (status.ok()) FillPattern({request.dest, request.bytes}, request.offset);
    request.sink->OnRead(request.tag, status);
  }

  void Close() override {}
  uint32_t depth() const override { return depth_; }
  ReadMode mode() const override { return {.engine = "fake", .direct = true}; }

 private:
  const uint32_t depth_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<ReadRequest> pending_ ES_GUARDED_BY(mutex_);
  Status refusal_ ES_GUARDED_BY(mutex_);
};

}  // namespace estream::testing
