// SPDX-License-Identifier: Apache-2.0
// The temporary file lies in the folder of its target, since rename cannot cross file systems.
#include "format/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool IsPageMultiple(uint64_t n) { return n % kPageBytes == 0; }

// Makes the rename durable. Its failure is not reported: the new file is complete and in place, and nothing could be
// undone.
void SyncFolder(const std::string& path) {
  const int fd = open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  close(fd);
}

}  // namespace

Status AtomicFile::IoError(const char* verb) const {
  return Status::Io(fmt::format("{}: cannot {}: {}", ShownPath(name_), verb, std::strerror(errno)));
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  struct stat info;
  std::string target = path;
  if (stat(path.c_str(), &info) == 0) {
    // Renaming over /dev/null or a pipe would destroy it for everybody.
    if (!S_ISREG(info.st_mode)) {
      return Status::Io(fmt::format("{}: cannot be written, it is not a regular file", ShownPath(path)));
    }
    char* resolved = realpath(path.c_str(), nullptr);
    if (resolved != nullptr) target = resolved;
    std::free(resolved);
  }
  std::unique_ptr<AtomicFile> file(new AtomicFile(path, std::move(target)));
  ES_RETURN_IF_ERROR(file->OpenTemporary());
  return file;
}

// The process id and a counter make the name unique; O_EXCL makes sure of it.
Status AtomicFile::OpenTemporary() {
  static std::atomic<uint32_t> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string name = fmt::format("{}.{}-{}.tmp", target_, getpid(), counter.fetch_add(1));
    fd_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) {
      temporary_ = std::move(name);
      return Status::Ok();
    }
    if (errno != EEXIST) break;
  }
  return IoError("create a file beside it");
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::BypassPageCache() { SetDirect(true); }

// Not every file system takes the flag; the file then stays as it was.
void AtomicFile::SetDirect(bool direct) {
  const int flags = fcntl(fd_, F_GETFL);
  if (flags < 0 || fcntl(fd_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) != 0) return;
  direct_ = direct;
}

// A direct write ends at a page, so the place of the next one is as good as the pieces before it; the last piece of a
// file need not be whole pages, and after one that is not the file stays with ordinary writes.
Status AtomicFile::Write(std::span<const std::byte> bytes) {
  if (direct_ && (!IsPageMultiple(bytes.size()) || !IsPageMultiple(reinterpret_cast<uintptr_t>(bytes.data())))) {
    SetDirect(false);
  }
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && direct_) {  // a file system that accepts the flag and not the write
      SetDirect(false);
      continue;
    }
    if (n < 0) return IoError("be written");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return Status::Ok();
}

Status AtomicFile::WriteHole(uint64_t bytes) {
  const off_t end = lseek(fd_, static_cast<off_t>(bytes), SEEK_CUR);
  return end >= 0 && ftruncate(fd_, end) == 0 ? Status::Ok() : IoError("be made longer");
}

Status AtomicFile::Commit() {
  if (fsync(fd_) != 0) return IoError("be written to storage");
  const int closed = close(std::exchange(fd_, -1));
  if (closed != 0) return IoError("be closed");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return IoError("be put in place");
  temporary_.clear();
  SyncFolder(target_);
  return Status::Ok();
}

}  // namespace estream
