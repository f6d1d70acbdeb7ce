// SPDX-License-Identifier: Apache-2.0
// What a direct read does not deliver, a buffered one does, so that only one path has to explain errors.
#include "pack/direct_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

constexpr uint64_t kBounceBytes = 256 << 10;
constexpr uint64_t kBufferedChunk = 1 << 20;

uint64_t AlignDown(uint64_t v) { return v & ~(kPageBytes - 1); }

bool Congruent(uint64_t offset, const std::byte* p) {
  return (reinterpret_cast<uintptr_t>(p) - offset) % kPageBytes == 0;
}

}  // namespace

Result<std::shared_ptr<const DirectFile>> DirectFile::Open(const std::string& path) {
  // The plain opening says what is wrong with the path, in the words used everywhere.
  ES_RETURN_IF_ERROR(OpenFile(path).status());
  const int buffered = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  struct stat info;
  if (buffered < 0 || fstat(buffered, &info) != 0) {
    const int error = errno;
    if (buffered >= 0) close(buffered);
    return Status::Io(fmt::format("{}: cannot be opened: {}", ShownPath(path), std::strerror(error)));
  }
  // Readahead would fetch what a direct or chunked reader never asks for.
  (void)posix_fadvise(buffered, 0, 0, POSIX_FADV_RANDOM);
  const int direct = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_DIRECT);
  return std::shared_ptr<const DirectFile>(new DirectFile(direct, buffered, static_cast<uint64_t>(info.st_size), path));
}

DirectFile::~DirectFile() {
  if (direct_fd_ >= 0) close(direct_fd_);
  close(buffered_fd_);
}

Status DirectFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (out.size() > size_ || offset > size_ - out.size()) {
    return Status::Corrupt(fmt::format("{}: ends at byte {}, {} bytes were expected at offset {}", ShownPath(name_),
                                       size_, out.size(), offset));
  }
  const size_t done = direct_ ? ReadDirect(offset, out) : 0;
  return ReadBuffered(offset + done, out.subspan(done));
}

// Returns how many of the first bytes of `out` were read.
size_t DirectFile::ReadDirect(uint64_t offset, std::span<std::byte> out) const {
  if (Congruent(offset, out.data())) return ReadPages(offset, out);
  const uint64_t skip = offset % kPageBytes;
  auto bounce = AlignedBuffer::Allocate(std::min(AlignUp(skip + out.size(), kPageBytes), kBounceBytes));
  if (!bounce.ok()) return 0;
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t at = offset + done, within = at % kPageBytes;
    const size_t take = std::min<size_t>(out.size() - done, bounce->bytes() - within);
    const size_t got = ReadPages(at, {bounce->data() + within, take});
    std::memcpy(out.data() + done, bounce->data() + within, got);
    done += got;
    if (got < take) break;
  }
  return done;
}

// One vectored read: the page in which `out` begins, the whole pages inside, the page in which it ends. Short reads are
// continued by the caller's buffered path. Pre: Congruent.
size_t DirectFile::ReadPages(uint64_t offset, std::span<std::byte> out) const {
  if (out.empty()) return 0;
  alignas(kPageBytes) std::byte edge[2][kPageBytes];
  const uint64_t first = AlignDown(offset), end = offset + out.size();
  const uint64_t inner_first = AlignUp(offset, kPageBytes), inner_end = std::max(inner_first, AlignDown(end));
  iovec parts[3];
  int count = 0;
  if (first < inner_first) parts[count++] = {edge[0], kPageBytes};
  if (inner_first < inner_end) parts[count++] = {out.data() + (inner_first - offset), inner_end - inner_first};
  if (inner_end < end) parts[count++] = {edge[1], kPageBytes};

  ssize_t n;
  do {
    n = preadv(direct_fd_, parts, count, static_cast<off_t>(first));
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EINVAL) direct_ = false;  // this file system takes O_DIRECT at open and not at read
  if (n <= 0) return 0;

  const uint64_t got_end = std::min(first + static_cast<uint64_t>(n), end);
  if (got_end <= offset) return 0;
  if (first < inner_first) std::memcpy(out.data(), edge[0] + (offset - first), std::min(inner_first, got_end) - offset);
  if (got_end > inner_end) std::memcpy(out.data() + (inner_end - offset), edge[1], got_end - inner_end);
  return got_end - offset;
}

Status DirectFile::ReadBuffered(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const size_t take = std::min<size_t>(out.size(), kBufferedChunk);
    const ssize_t n = pread(buffered_fd_, out.data(), take, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Status::Io(
          fmt::format("{}: cannot be read at offset {}: {}", ShownPath(name_), offset, std::strerror(errno)));
    }
    if (n == 0) {
      return Status::Corrupt(
          fmt::format("{}: was {} bytes long when opened and now ends at byte {}", ShownPath(name_), size_, offset));
    }
    const uint64_t end = offset + static_cast<uint64_t>(n);
    (void)posix_fadvise(buffered_fd_, static_cast<off_t>(AlignDown(offset)),
                        static_cast<off_t>(AlignUp(end, kPageBytes) - AlignDown(offset)), POSIX_FADV_DONTNEED);
    offset = end;
    out = out.subspan(static_cast<size_t>(n));
  }
  return Status::Ok();
}

}  // namespace estream
