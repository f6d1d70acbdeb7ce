// SPDX-License-Identifier: Apache-2.0
// Record files of the operating system.
#include "residency/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

constexpr int kAsked = -1;  // in place of an error number: the user asked for buffered reads

class SystemFile final : public RecordFile {
 public:
  SystemFile(int fd, std::string name, bool direct, int why_buffered)
      : fd_(fd), name_(std::move(name)), direct_(direct), why_buffered_(why_buffered) {
    if (!direct) AdviseRandom();
  }
  ~SystemFile() override { close(fd_); }

  int64_t ReadSome(uint64_t offset, std::span<std::byte> out) override {
    const ssize_t n = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    return n < 0 ? -errno : n;
  }
  int descriptor() const override { return fd_; }
  uint64_t size_now() const override {
    struct stat info;
    return fstat(fd_, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  }
  const std::string& name() const override { return name_; }

  bool direct() const override { return direct_.load(std::memory_order_acquire); }
  std::string buffered_reason() const override {
    const int why = why_buffered_.load(std::memory_order_acquire);
    if (direct() || why == kAsked) return direct() ? "" : "as asked";
    return fmt::format("direct reads refused: {}", std::strerror(why));
  }
  void GoBuffered(int error) override {
    why_buffered_.store(error, std::memory_order_release);
    if (!direct_.exchange(false, std::memory_order_acq_rel)) return;
    fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) & ~O_DIRECT);
    AdviseRandom();
  }
  void DropBehind(uint64_t offset, uint64_t bytes) override {
    posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  }

 private:
  // Read-ahead would fill the page cache, which the budget does not count.
  void AdviseRandom() { posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM); }

  const int fd_;
  const std::string name_;
  std::atomic<bool> direct_;
  std::atomic<int> why_buffered_;
};

// FUSE and some virtual disks accept the flag and refuse the read.
void TryOnePage(RecordFile& file) {
  auto page = AlignedBuffer::Allocate(kPageBytes);
  if (!page.ok()) return;
  if (file.ReadSome(0, page->span()) == -EINVAL) file.GoBuffered(EINVAL);
}

}  // namespace

Result<std::shared_ptr<RecordFile>> OpenRecordFile(const std::string& path, bool direct) {
  // O_NONBLOCK: opening a pipe must not wait for its writer just to be refused.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  int why_buffered = direct ? 0 : kAsked;
  int fd = open(path.c_str(), direct ? kFlags | O_DIRECT : kFlags);
  if (fd < 0 && direct && errno == EINVAL) {
    why_buffered = EINVAL;
    direct = false;
    fd = open(path.c_str(), kFlags);
  }
  if (fd < 0) {
    const StatusCode code = errno == ENOENT || errno == ENOTDIR ? StatusCode::kNotFound : StatusCode::kIo;
    return Status(code, fmt::format("{}: cannot be opened: {}", ShownPath(path), std::strerror(errno)));
  }
  auto file = std::make_shared<SystemFile>(fd, path, direct, why_buffered);
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return Status::Io(fmt::format("{}: is no regular file", ShownPath(path)));
  }
  if (direct) TryOnePage(*file);
  return std::shared_ptr<RecordFile>(std::move(file));
}

}  // namespace estream
