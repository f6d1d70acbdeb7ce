// SPDX-License-Identifier: Apache-2.0
// Q threads with pread. Each publishes what it has read: handing over to a reaper would cost one more switch of threads
// a read, and the sink's own lock already makes publishing one at a time.
#include "residency/thread_read_engine.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "base/macros.h"
#include "base/mutex.h"
#include "residency/file_mode.h"
#include "residency/read_progress.h"

namespace estream {
namespace {

class ThreadReadEngine final : public ReadEngine {
 public:
  ThreadReadEngine(std::vector<std::shared_ptr<RecordFile>> files, uint32_t depth, std::string reason)
      : files_(std::move(files)), depth_(depth), reason_(std::move(reason)), queue_(depth) {
    for (uint32_t t = 0; t < depth; ++t) threads_.emplace_back([this] { Work(); });
  }
  ~ThreadReadEngine() override { Close(); }

  Status Submit(const ReadRequest& request) override ES_EXCLUDES(mutex_) {
    ES_RETURN_IF_ERROR(CheckReadRequest(request, files_.size()));
    {
      MutexLock lock(mutex_);
      if (closing_) return Status::Cancelled("the read engine is closed");
      if (in_flight_ == depth_) {
        return Status::InvalidArgument(fmt::format("more than {} reads in flight", depth_));
      }
      ++in_flight_;
      queue_[(first_ + queued_++) % depth_] = request;
    }
    work_.NotifyOne();
    return Status::Ok();
  }

  void Close() override ES_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      closing_ = true;
    }
    work_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  uint32_t depth() const override { return depth_; }
  ReadMode mode() const override {
    ReadMode mode;
    mode.engine = "threads";
    mode.engine_reason = reason_;
    DescribeFiles(files_, mode);
    return mode;
  }

 private:
  bool TakeRequest(ReadRequest& request, bool& cancelled) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (queued_ == 0 && !closing_) work_.Wait(mutex_);
    if (queued_ == 0) return false;
    request = queue_[first_];
    first_ = (first_ + 1) % depth_;
    --queued_;
    cancelled = closing_;
    return true;
  }

  void Work() ES_EXCLUDES(mutex_) {
    ReadRequest request;
    bool cancelled = false;
    while (TakeRequest(request, cancelled)) {
      const Status status = cancelled ? Status::Cancelled("the read engine was closed") : Read(request);
      {
        // Before the sink is called, since it may submit the next read.
        MutexLock lock(mutex_);
        --in_flight_;
      }
      request.sink->OnRead(request.tag, status);
    }
  }

  Status Read(const ReadRequest& request) {
    RecordFile& file = *files_[request.file];
    ReadProgress progress(file, request.offset, {request.dest, request.bytes});
    while (progress.Take(file.ReadSome(progress.position(), progress.next())) == ReadProgress::Step::kAgain) {
    }
    return progress.status();
  }

  // Constant after construction.
  const std::vector<std::shared_ptr<RecordFile>> files_;
  const uint32_t depth_;
  const std::string reason_;

  Mutex mutex_;
  CondVar work_;                                          // a request is queued, or the engine is closing
  std::vector<ReadRequest> queue_ ES_GUARDED_BY(mutex_);  // a ring of depth_
  uint32_t first_ ES_GUARDED_BY(mutex_) = 0;
  uint32_t queued_ ES_GUARDED_BY(mutex_) = 0;
  uint32_t in_flight_ ES_GUARDED_BY(mutex_) = 0;  // queued or being read
  bool closing_ ES_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<ReadEngine>> MakeThreadReadEngine(std::vector<std::shared_ptr<RecordFile>> files, uint32_t depth,
                                                         std::string reason) {
  return std::unique_ptr<ReadEngine>(std::make_unique<ThreadReadEngine>(std::move(files), depth, std::move(reason)));
}

}  // namespace estream
