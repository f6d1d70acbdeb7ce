// SPDX-License-Identifier: Apache-2.0
// Threads with one preadv each, on a file opened past the page cache.
#include "bench/storage_speed.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/macros.h"

namespace estream {
namespace {

constexpr uint64_t kSmallestRead = uint64_t{64} << 10;
constexpr uint64_t kLargestRead = uint64_t{16} << 20;
constexpr uint32_t kDepths[] = {1, 2, 4, 8};

Status SystemError(const char* what, const std::string& path, int error) {
  return Status::Io(fmt::format("{} {}: {}", what, path, strerror(error)));
}

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

struct Source {
  Descriptor fd;
  std::string path;
  uint64_t bytes;
  bool direct;
};

// Reads all of one block; 0 or the system's error.
int ReadBlock(const Source& source, std::byte* out, uint64_t bytes, uint64_t offset) {
  for (uint64_t done = 0; done < bytes;) {
    iovec part = {out + done, bytes - done};
    const ssize_t n = preadv(source.fd.get(), &part, 1, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    done += static_cast<uint64_t>(n);
  }
  if (!source.direct)
    posix_fadvise(source.fd.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  return 0;
}

// Opens for direct reads; buffered where they are refused, at open or at the first read.
Result<Source> OpenSource(const std::string& path, AlignedBuffer& buffer) {
  for (const bool direct : {true, false}) {
    Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0)));
    if (fd.get() < 0 && direct && errno == EINVAL) continue;
    if (fd.get() < 0) return SystemError("cannot open", path, errno);
    struct stat info;
    if (fstat(fd.get(), &info) != 0) return SystemError("cannot examine", path, errno);
    const auto bytes = static_cast<uint64_t>(info.st_size);
    if (bytes < 4 * kLargestRead) {
      return Status::InvalidArgument(
          fmt::format("{}: {} bytes are too few to measure, at least {} are needed", path, bytes, 4 * kLargestRead));
    }
    Source source = {std::move(fd), path, bytes, direct};
    const int error = ReadBlock(source, buffer.data(), kSmallestRead, 0);
    if (error == 0) return source;
    if (!direct || error != EINVAL) return SystemError("cannot read", path, error);
  }
  return Status::Io(fmt::format("cannot read {}", path));
}

// GB/s of reading for about `seconds`, blocks in ascending order from block *next on, `depth` at a time.
Result<double> ReadFor(const Source& source, AlignedBuffer& buffer, uint64_t block_bytes, uint32_t depth,
                       double seconds, std::atomic<uint64_t>* next) {
  const uint64_t blocks = source.bytes / block_bytes;
  std::atomic<uint64_t> done{0};
  std::atomic<int> error{0};
  const double start = Now(kWallClock);
  const auto read = [&](uint32_t thread) {
    std::byte* out = buffer.data() + thread * kLargestRead;
    do {
      const uint64_t block = next->fetch_add(1) % blocks;
      if (const int e = ReadBlock(source, out, block_bytes, block * block_bytes); e != 0) error = e;
      ++done;
    } while (error == 0 && Now(kWallClock) - start < seconds);
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 1; t < depth; ++t) threads.emplace_back(read, t);
  read(0);
  for (std::thread& thread : threads) thread.join();
  if (error != 0) return SystemError("cannot read", source.path, error);
  return 1e-9 * static_cast<double>(done * block_bytes) / (Now(kWallClock) - start);
}

}  // namespace

Result<StorageSpeed> MeasureStorage(const std::string& path, const Effort& effort) {
  ES_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(kDepths[3] * kLargestRead));
  memset(buffer.data(), 0, buffer.bytes());
  ES_ASSIGN_OR_RETURN(const Source source, OpenSource(path, buffer));
  StorageSpeed speed;
  speed.mode =
      source.direct ? "direct" : "buffered (the file system refuses direct reads), pages dropped after each read";
  speed.table = {.title = "Storage, GB/s by reads in flight", .label = "read size", .columns = {}, .rows = {}};
  for (const uint32_t depth : kDepths) speed.table.columns.push_back(fmt::format("{}", depth));
  std::atomic<uint64_t> next{0};
  for (uint64_t bytes = kSmallestRead; bytes <= kLargestRead; bytes *= 4) {
    const std::string label =
        bytes < (1 << 20) ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
    ReportTable::Row row = {label, {}};
    for (const uint32_t depth : kDepths) {
      std::vector<double> samples;
      for (uint32_t i = 0; i < effort.repeats; ++i) {
        ES_ASSIGN_OR_RETURN(const double sample,
                            ReadFor(source, buffer, bytes, depth, 5 * effort.sample_seconds, &next));
        samples.push_back(sample);
      }
      row.values.push_back(Median(std::move(samples)));
    }
    speed.table.rows.push_back(std::move(row));
  }
  return speed;
}

Result<std::string> WriteStorageProbe(const std::string& dir, uint64_t bytes) {
  std::string path = dir + "/estream-bench-XXXXXX";
  const Descriptor fd(mkstemp(path.data()));
  if (fd.get() < 0) return SystemError("cannot create", path, errno);
  std::vector<uint64_t> chunk((uint64_t{1} << 20) / sizeof(uint64_t));
  std::mt19937_64 rng(1);
  for (uint64_t done = 0; done < bytes; done += chunk.size() * sizeof(uint64_t)) {
    for (uint64_t& word : chunk) word = rng();
    const auto* data = reinterpret_cast<const std::byte*>(chunk.data());
    for (uint64_t at = 0; at < chunk.size() * sizeof(uint64_t);) {
      const ssize_t n = write(fd.get(), data + at, chunk.size() * sizeof(uint64_t) - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        const Status status = SystemError("cannot write", path, errno);
        unlink(path.c_str());
        return status;
      }
      at += static_cast<uint64_t>(n);
    }
  }
  if (fsync(fd.get()) != 0) {
    const Status status = SystemError("cannot write", path, errno);
    unlink(path.c_str());
    return status;
  }
  return path;
}

}  // namespace estream
