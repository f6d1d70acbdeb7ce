// SPDX-License-Identifier: Apache-2.0
// One thread owns the ring: it submits and reaps. Requests reach it through a queue and an eventfd whose read is always
// in the ring. So the thread that asks for a read spends no time pinning pages, completions do not interrupt it, and
// reads do not die with it (the kernel cancels the requests of a thread that exits).
#include "residency/uring_read_engine.h"

#include <fmt/format.h>
#include <liburing.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/macros.h"
#include "base/mutex.h"
#include "residency/file_mode.h"
#include "residency/read_progress.h"

namespace estream {
namespace {

constexpr uint32_t kNoRegion = UINT32_MAX;
constexpr uint64_t kWake = UINT64_MAX;  // user_data of the eventfd's read

bool CanRead(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return false;
  const bool can = io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
  io_uring_free_probe(probe);
  return can;
}

class UringReadEngine final : public ReadEngine {
 public:
  UringReadEngine(std::vector<std::shared_ptr<RecordFile>> files, std::vector<std::span<std::byte>> regions,
                  const ReadEngineOptions& options);
  ~UringReadEngine() override;

  // Sets up the ring and starts the thread; once, before anything else.
  Status Open();

  Status Submit(const ReadRequest& request) override ES_EXCLUDES(mutex_);
  void Close() override ES_EXCLUDES(mutex_);
  uint32_t depth() const override { return options_.depth; }
  ReadMode mode() const override ES_EXCLUDES(mutex_);

 private:
  struct Region {
    std::span<std::byte> memory;
    bool registered = false;
  };
  // A read in the ring.
  struct Operation {
    ReadRequest request;
    std::optional<ReadProgress> progress;
    uint32_t region = kNoRegion;  // whose pinned pages it uses
  };

  void Register();
  uint32_t PinnedRegion(const ReadRequest& request) ES_EXCLUDES(mutex_);

  void Run();
  bool TakeRequests() ES_EXCLUDES(mutex_);
  void WaitForCompletions() ES_EXCLUDES(mutex_);
  void Begin(const ReadRequest& request);
  void Post(uint32_t operation);
  void ArmWake();
  void OnCompletion(uint64_t user_data, int result);
  void Finish(const ReadRequest& request, const Status& status) ES_EXCLUDES(mutex_);
  void Wake();

  // Constant after Open.
  const std::vector<std::shared_ptr<RecordFile>> files_;
  const ReadEngineOptions options_;
  io_uring ring_{};
  bool ring_open_ = false;
  int wake_fd_ = -1;
  bool fixed_files_ = false;

  // Of the ring's thread.
  std::vector<Region> regions_;  // by address
  bool pin_ = false;             // regions may still be registered
  std::vector<Operation> operations_;
  std::vector<uint32_t> free_operations_;
  uint64_t wake_count_ = 0;  // written by the kernel
  bool wake_armed_ = false;
  bool stopping_ = false;

  mutable Mutex mutex_;
  std::vector<ReadRequest> queue_ ES_GUARDED_BY(mutex_);  // a ring of options_.depth
  uint32_t first_ ES_GUARDED_BY(mutex_) = 0;
  uint32_t queued_ ES_GUARDED_BY(mutex_) = 0;
  uint32_t in_flight_ ES_GUARDED_BY(mutex_) = 0;  // queued or in the ring
  bool asleep_ ES_GUARDED_BY(mutex_) = false;     // the thread waits, or is about to, and must be woken
  bool closing_ ES_GUARDED_BY(mutex_) = false;
  uint32_t registered_ ES_GUARDED_BY(mutex_) = 0;
  std::string registered_reason_ ES_GUARDED_BY(mutex_);

  std::thread thread_;
};

UringReadEngine::UringReadEngine(std::vector<std::shared_ptr<RecordFile>> files,
                                 std::vector<std::span<std::byte>> regions, const ReadEngineOptions& options)
    : files_(std::move(files)), options_(options), operations_(options.depth), queue_(options.depth) {
  for (const auto& memory : regions) regions_.push_back({memory, false});
  std::sort(regions_.begin(), regions_.end(),
            [](const Region& a, const Region& b) { return a.memory.data() < b.memory.data(); });
  for (uint32_t i = options.depth; i-- > 0;) free_operations_.push_back(i);
}

UringReadEngine::~UringReadEngine() {
  Close();
  if (ring_open_) io_uring_queue_exit(&ring_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

Status UringReadEngine::Open() {
  for (const auto& file : files_) {
    if (file->descriptor() < 0) return Status::Unsupported(fmt::format("{} has no descriptor", file->name()));
  }
  // One entry more than reads: the eventfd's.
  if (const int error = io_uring_queue_init(options_.depth + 1, &ring_, 0); error < 0) {
    return Status::Unsupported(fmt::format("io_uring: {}", std::strerror(-error)));
  }
  ring_open_ = true;
  if (!CanRead(ring_)) return Status::Unsupported("io_uring: this kernel's has no plain reads");
  wake_fd_ = eventfd(0, EFD_CLOEXEC);
  if (wake_fd_ < 0) return Status::Unsupported(fmt::format("eventfd: {}", std::strerror(errno)));
  Register();
  thread_ = std::thread([this] { Run(); });
  return Status::Ok();
}

// What cannot be registered works without; only the reason is kept.
void UringReadEngine::Register() {
  MutexLock lock(mutex_);
  if (!options_.register_all) {
    registered_reason_ = "as asked";
    return;
  }
  std::vector<int> descriptors;
  for (const auto& file : files_) descriptors.push_back(file->descriptor());
  fixed_files_ = io_uring_register_files(&ring_, descriptors.data(), static_cast<unsigned>(descriptors.size())) == 0;
  if (regions_.empty()) {
    registered_reason_ = "no regions";
    return;
  }
  // A table of empty places, filled as banks are first read.
  const int error = io_uring_register_buffers_sparse(&ring_, static_cast<unsigned>(regions_.size()));
  if (error < 0) registered_reason_ = std::strerror(-error);
  pin_ = error == 0;
}

// The region that holds the request's whole destination, pinned now if it was not yet; else kNoRegion.
uint32_t UringReadEngine::PinnedRegion(const ReadRequest& request) {
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), request.dest,
                                      [](const std::byte* dest, const Region& r) { return dest < r.memory.data(); });
  if (after == regions_.begin()) return kNoRegion;
  Region& region = *(after - 1);
  if (request.dest + request.bytes > region.memory.data() + region.memory.size()) return kNoRegion;
  const auto index = static_cast<uint32_t>(after - 1 - regions_.begin());
  if (region.registered) return index;
  if (!pin_) return kNoRegion;
  iovec memory = {region.memory.data(), region.memory.size()};
  __u64 tag = 0;
  const int result = io_uring_register_buffers_update_tag(&ring_, index, &memory, &tag, 1);
  region.registered = result == 1;
  // Usually the limit of locked memory (8 MiB for ordinary users); it would refuse the next region too.
  pin_ = region.registered;
  MutexLock lock(mutex_);
  if (region.registered) {
    ++registered_;
    return index;
  }
  registered_reason_ = std::strerror(result < 0 ? -result : ENOMEM);
  return kNoRegion;
}

Status UringReadEngine::Submit(const ReadRequest& request) {
  ES_RETURN_IF_ERROR(CheckReadRequest(request, files_.size()));
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (closing_) return Status::Cancelled("the read engine is closed");
    if (in_flight_ == options_.depth) {
      return Status::InvalidArgument(fmt::format("more than {} reads in flight", options_.depth));
    }
    ++in_flight_;
    queue_[(first_ + queued_++) % options_.depth] = request;
    wake = std::exchange(asleep_, false);
  }
  if (wake) Wake();
  return Status::Ok();
}

void UringReadEngine::Close() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  Wake();
  thread_.join();
}

ReadMode UringReadEngine::mode() const {
  ReadMode mode;
  mode.engine = "io_uring";
  mode.registered_files = fixed_files_;
  DescribeFiles(files_, mode);
  MutexLock lock(mutex_);
  mode.registered_regions = registered_;
  mode.registered_reason = registered_reason_;
  return mode;
}

void UringReadEngine::Run() {
  ArmWake();
  while (TakeRequests()) {
    if (!wake_armed_ && !stopping_) ArmWake();
    WaitForCompletions();
  }
}

// Puts what is queued into the ring. False when the engine is closed and nothing is left in the ring.
bool UringReadEngine::TakeRequests() {
  while (true) {
    ReadRequest request;
    {
      MutexLock lock(mutex_);
      stopping_ = closing_;
      if (queued_ == 0) {
        asleep_ = true;
        return !stopping_ || wake_armed_ || free_operations_.size() < operations_.size();
      }
      request = queue_[first_];
      first_ = (first_ + 1) % options_.depth;
      --queued_;
    }
    if (stopping_) {
      Finish(request, Status::Cancelled("the read engine was closed"));
    } else {
      Begin(request);
    }
  }
}

void UringReadEngine::WaitForCompletions() {
  const int result = io_uring_submit_and_wait(&ring_, 1);
  // Out of kernel memory for the moment: what was not taken stays queued in the ring and is offered again.
  if (result == -EAGAIN || result == -EBUSY) sched_yield();
  ES_CHECK(result >= 0 || result == -EAGAIN || result == -EBUSY || result == -EINTR);
  {
    MutexLock lock(mutex_);
    asleep_ = false;
  }
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const uint64_t user_data = cqe->user_data;
    const int outcome = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    OnCompletion(user_data, outcome);
  }
}

void UringReadEngine::Begin(const ReadRequest& request) {
  const uint32_t index = free_operations_.back();
  free_operations_.pop_back();
  Operation& operation = operations_[index];
  operation.request = request;
  operation.progress.emplace(*files_[request.file], request.offset, std::span(request.dest, request.bytes));
  operation.region = PinnedRegion(request);
  Post(index);
}

void UringReadEngine::Post(uint32_t index) {
  const Operation& operation = operations_[index];
  const std::span<std::byte> out = operation.progress->next();
  const auto bytes = static_cast<unsigned>(out.size());
  const uint64_t offset = operation.progress->position();
  const int file =
      fixed_files_ ? static_cast<int>(operation.request.file) : files_[operation.request.file]->descriptor();
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  ES_CHECK(sqe != nullptr);  // the ring has a place for every operation
  if (operation.region != kNoRegion) {
    io_uring_prep_read_fixed(sqe, file, out.data(), bytes, offset, static_cast<int>(operation.region));
  } else {
    io_uring_prep_read(sqe, file, out.data(), bytes, offset);
  }
  if (fixed_files_) sqe->flags |= IOSQE_FIXED_FILE;
  sqe->user_data = index;
}

void UringReadEngine::ArmWake() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  ES_CHECK(sqe != nullptr);
  io_uring_prep_read(sqe, wake_fd_, &wake_count_, sizeof(wake_count_), 0);
  sqe->user_data = kWake;
  wake_armed_ = true;
}

void UringReadEngine::OnCompletion(uint64_t user_data, int result) {
  if (user_data == kWake) {
    wake_armed_ = false;
    return;
  }
  const auto index = static_cast<uint32_t>(user_data);
  Operation& operation = operations_[index];
  if (operation.progress->Take(result) == ReadProgress::Step::kAgain) return Post(index);
  const Status status = operation.progress->status();
  free_operations_.push_back(index);
  Finish(operation.request, status);
}

// By value what the sink needs: it may submit a read that takes the operation's place.
void UringReadEngine::Finish(const ReadRequest& request, const Status& status) {
  const uint64_t tag = request.tag;
  ReadSink* const sink = request.sink;
  {
    MutexLock lock(mutex_);
    --in_flight_;
  }
  sink->OnRead(tag, status);
}

void UringReadEngine::Wake() {
  const uint64_t one = 1;
  while (write(wake_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<std::unique_ptr<ReadEngine>> MakeUringReadEngine(std::vector<std::shared_ptr<RecordFile>> files,
                                                        std::vector<std::span<std::byte>> regions,
                                                        const ReadEngineOptions& options) {
  auto engine = std::make_unique<UringReadEngine>(std::move(files), std::move(regions), options);
  ES_RETURN_IF_ERROR(engine->Open());
  return std::unique_ptr<ReadEngine>(std::move(engine));
}

}  // namespace estream
