// SPDX-License-Identifier: Apache-2.0
// Buffered file access through pread; every system error becomes one sentence with the path in it.
#include "format/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/macros.h"
#include "format/atomic_file.h"
#include "format/quote.h"

namespace estream {
namespace {

// Owns a descriptor; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// `error` as a sentence: NotFound when nothing is there, Io for everything else.
Status OpenError(const std::string& path, int error) {
  const StatusCode code = error == ENOENT || error == ENOTDIR ? StatusCode::kNotFound : StatusCode::kIo;
  return {code, fmt::format("{}: cannot be opened: {}", ShownPath(path), std::strerror(error))};
}

Status ReadError(const std::string& path, int error) {
  return Status::Io(fmt::format("{}: cannot be read: {}", ShownPath(path), std::strerror(error)));
}

Status KindError(const std::string& path, mode_t mode) {
  const char* kind = S_ISDIR(mode)                      ? "a directory"
                     : S_ISCHR(mode) || S_ISBLK(mode)   ? "a device"
                     : S_ISFIFO(mode) || S_ISSOCK(mode) ? "a pipe or socket"
                                                        : "something else";
  return Status::Io(fmt::format("{}: is {}, expected a regular file", ShownPath(path), kind));
}

class PreadFile final : public RandomAccessFile {
 public:
  PreadFile(Descriptor fd, uint64_t size, std::string name) : fd_(std::move(fd)), size_(size), name_(std::move(name)) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      // Past the largest off_t there is nothing; pread would call it invalid rather than the end.
      const bool addressable = offset <= static_cast<uint64_t>(INT64_MAX) - out.size();
      const ssize_t n =
          addressable ? pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done)) : 0;
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ReadError(name_, errno);
      if (n == 0) return EndError(offset, out.size(), done);
      done += static_cast<size_t>(n);
    }
    return Status::Ok();
  }

  void WillRead(uint64_t offset, uint64_t bytes) const override {
    if (offset <= size_ && bytes <= size_ - offset) {
      (void)posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
    }
  }

  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }

 private:
  // The file may have been cut since it was opened: what was read, not size_, says where it ends.
  Status EndError(uint64_t offset, size_t wanted, size_t got) const {
    const uint64_t end = got > 0 ? offset + got : std::min(size_, offset);
    return Status::Corrupt(
        fmt::format("{}: ends at byte {}, {} bytes were expected at offset {}", ShownPath(name_), end, wanted, offset));
  }

  const Descriptor fd_;
  const uint64_t size_;
  const std::string name_;
};

// Reads `fd` to its end, or one byte past `max_bytes`, whichever comes first.
Result<std::string> ReadToEnd(int fd, const std::string& shown, uint64_t max_bytes) {
  constexpr size_t kChunk = 64 << 10;
  std::string text;
  while (text.size() <= max_bytes) {
    const size_t old = text.size();
    text.resize(old + static_cast<size_t>(std::min<uint64_t>(kChunk, max_bytes - old) + 1));
    const ssize_t n = read(fd, text.data() + old, text.size() - old);
    const int error = errno;
    text.resize(old + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && error != EINTR) return ReadError(shown, error);
    if (n == 0) return text;
  }
  return Status::InvalidArgument(fmt::format("{}: is longer than {} bytes", ShownPath(shown), max_bytes));
}

}  // namespace

Result<std::unique_ptr<RandomAccessFile>> OpenFile(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer just to be refused. It means nothing for regular files.
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (fd.get() < 0) return OpenError(path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return OpenError(path, errno);
  if (!S_ISREG(info.st_mode)) return KindError(path, info.st_mode);
  return std::unique_ptr<RandomAccessFile>(
      std::make_unique<PreadFile>(std::move(fd), static_cast<uint64_t>(info.st_size), path));
}

Result<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes) {
  if (path == "-") return ReadToEnd(STDIN_FILENO, "standard input", max_bytes);
  // Looked at before it is opened, since opening a device can have effects; a pipe waits for its writer, as cat would.
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return OpenError(path, errno);
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) return KindError(path, info.st_mode);
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (fd.get() < 0) return OpenError(path, errno);
  return ReadToEnd(fd.get(), path, max_bytes);
}

Status WriteFileAtomically(const std::string& path, std::span<const std::byte> bytes) {
  ES_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  ES_RETURN_IF_ERROR(file->Write(bytes));
  return file->Commit();
}

}  // namespace estream
