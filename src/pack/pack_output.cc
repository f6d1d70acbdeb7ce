// SPDX-License-Identifier: Apache-2.0
// Two descriptors for one file: pages go through the direct one, headers and odd pieces through the other.
#include "pack/pack_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

constexpr uint64_t kCacheBytes = 32 << 20;

bool IsPageAligned(uint64_t offset, std::span<const std::byte> bytes) {
  return (offset | bytes.size() | reinterpret_cast<uintptr_t>(bytes.data())) % kPageBytes == 0;
}

// Writes what follows the first `done` bytes, and counts on. Returns 0 or the system's error.
int WriteAll(int fd, uint64_t offset, std::span<const std::byte> bytes, size_t* done) {
  while (*done < bytes.size()) {
    const ssize_t n = pwrite(fd, bytes.data() + *done, bytes.size() - *done, static_cast<off_t>(offset + *done));
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) *done += static_cast<size_t>(n);
  }
  return 0;
}

}  // namespace

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string SizeText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Result<uint64_t> FreeBytesBeside(const std::string& path) {
  const std::string folder = FolderOf(path);
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) {
    return Status::Io(fmt::format("{}: cannot be asked for free space: {}", ShownPath(folder), std::strerror(errno)));
  }
  if (info.f_blocks == 0) return UINT64_MAX;  // a file system that does not count
  return uint64_t{info.f_bavail} * info.f_frsize;
}

Result<std::unique_ptr<PartialFile>> PartialFile::Create(const std::string& target) {
  const std::string path = target + ".partial";
  const auto error = [&](const char* verb) {
    return Status::Io(fmt::format("{}: cannot {}: {}", ShownPath(path), verb, std::strerror(errno)));
  };
  constexpr int kFlags = O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0666);
    if (fd < 0) return error("be created");
    const int direct_fd = open(path.c_str(), O_WRONLY | O_DIRECT | kFlags);
    std::unique_ptr<PartialFile> file(new PartialFile(target, fd, direct_fd));
    struct stat opened, named;
    if (fstat(fd, &opened) != 0) return error("be looked at");
    if (!S_ISREG(opened.st_mode)) return Status::Io(fmt::format("{}: is not a regular file", ShownPath(path)));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return error("be locked");
      return Status::InvalidArgument(fmt::format("{}: another process is writing it", ShownPath(path)));
    }
    // Between open and lock another process may have finished this very file and given it its final name.
    if (stat(path.c_str(), &named) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino) return file;
  }
  return Status::Io(fmt::format("{}: is replaced again and again by another process", ShownPath(path)));
}

PartialFile::PartialFile(std::string target, int fd, int direct_fd)
    : target_(std::move(target)),
      path_(target_ + ".partial"),
      fd_(fd),
      direct_fd_(direct_fd),
      direct_(direct_fd >= 0) {}

PartialFile::~PartialFile() {
  if (direct_fd_ >= 0) close(direct_fd_);
  close(fd_);
}

Status PartialFile::Error(const char* verb) const {
  return Status::Io(fmt::format("{}: cannot {}: {}", ShownPath(path_), verb, std::strerror(errno)));
}

Result<uint64_t> PartialFile::AllocatedBytes() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return Error("be looked at");
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

Status PartialFile::Clear() { return ftruncate(fd_, 0) == 0 ? Status::Ok() : Error("be emptied"); }

Status PartialFile::Reserve(uint64_t bytes) {
  ES_ASSIGN_OR_RETURN(const uint64_t allocated, AllocatedBytes());
  ES_ASSIGN_OR_RETURN(const uint64_t free, FreeBytesBeside(path_));
  const uint64_t needed = bytes > allocated ? bytes - allocated : 0;
  const auto no_space = [&] {
    return Status::Io(fmt::format("{}: needs {} ({} bytes), {} has {} ({} bytes) free", ShownPath(target_),
                                  SizeText(needed), needed, ShownPath(FolderOf(target_)), SizeText(free), free));
  };
  if (needed > free) return no_space();
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return Error("be given its size");
  // Without this, space that others take meanwhile would be missed in the middle. Not all file systems can.
  int result;
  do {
    result = fallocate(fd_, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return Status::Ok();
  return errno == ENOSPC || errno == EDQUOT ? no_space() : Error("be given its space");
}

Status PartialFile::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  size_t done = 0;
  if (direct_ && IsPageAligned(offset, bytes)) {
    const int error = WriteAll(direct_fd_, offset, bytes, &done);
    if (error == 0) return Status::Ok();
    // What the direct write left, the buffered one below writes, or says why not. Only "invalid" is about direct
    // writes as such.
    if (error == EINVAL) direct_ = false;
  }
  if (const int error = WriteAll(fd_, offset, bytes, &done); error != 0) {
    return Status::Io(
        fmt::format("{}: cannot be written at offset {}: {}", ShownPath(path_), offset + done, std::strerror(error)));
  }
  return DropWhatIsWritten(bytes.size());
}

Status PartialFile::DropWhatIsWritten(uint64_t more) {
  const std::lock_guard lock(cache_mutex_);
  cached_bytes_ += more;
  if (cached_bytes_ < kCacheBytes) return Status::Ok();
  cached_bytes_ = 0;
  constexpr unsigned kWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (sync_file_range(fd_, 0, 0, kWait) != 0 && errno != ENOSYS && errno != ESPIPE && errno != EINVAL) {
    return Error("be written to storage");
  }
  (void)posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  return Status::Ok();
}

Status PartialFile::Sync() {
  if (fsync(fd_) != 0) return Error("be written to storage");
  (void)posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  return Status::Ok();
}

Status PartialFile::Publish() {
  if (rename(path_.c_str(), target_.c_str()) != 0) return Error("be put in place");
  here_ = false;
  const int folder = open(FolderOf(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return Status::Ok();  // the pack is complete and in place; nothing could be undone
  (void)fsync(folder);
  close(folder);
  return Status::Ok();
}

void PartialFile::Discard() {
  if (here_) (void)unlink(path_.c_str());
  here_ = false;
}

}  // namespace estream
