// SPDX-License-Identifier: Apache-2.0
// The file a pack is written into: under a temporary name beside its target, at any offset, with a bounded page cache.
//
// Create -> (Reserve) -> WriteAt* -> Sync -> Publish. Destroyed before Publish, it leaves the partial file for a later
// run, unless Discard was called.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "estream/status.h"

namespace estream {

// What writing a pack needs of a file; the seam where tests make disks full.
class PackOutput {
 public:
  virtual ~PackOutput() = default;

  // Writes all of `bytes`; loops over short writes and EINTR.
  // Threads: any, at once, for ranges that do not overlap.
  // Errors:  Io with the file's name, the offset and the system's reason.
  virtual Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) = 0;

  // Returns when everything written is on storage. Errors: Io.
  virtual Status Sync() = 0;
};

class PartialFile final : public PackOutput {
 public:
  // Opens `target`.partial for writing and locks it; the content of an earlier run stays.
  //
  // Errors: Io when it cannot be created or is no regular file; InvalidArgument when another process is writing it.
  static Result<std::unique_ptr<PartialFile>> Create(const std::string& target);
  ~PartialFile() override;

  const std::string& path() const { return path_; }
  // Bytes that the file system has given it already.
  Result<uint64_t> AllocatedBytes() const;

  // Empties the file.
  Status Clear();
  // Sets the size, and takes the space for it where the file system can.
  // Errors: Io, with what is needed and what is free when space is short.
  Status Reserve(uint64_t bytes);

  // Page-aligned bytes at page-aligned offsets bypass the page cache where the file system allows it; everything else
  // is written out and dropped from the cache when 32 MiB have come together.
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override;
  Status Sync() override;

  // Renames the file to its target, durably. Errors: Io; the partial file stays.
  Status Publish();
  // Removes the file.
  void Discard();

  // Whether page-aligned writes have bypassed the page cache so far.
  bool direct() const { return direct_; }

 private:
  PartialFile(std::string target, int fd, int direct_fd);
  Status Error(const char* verb) const;
  Status DropWhatIsWritten(uint64_t more);

  const std::string target_;
  const std::string path_;
  const int fd_;
  const int direct_fd_;  // -1: refused when opened
  std::atomic<bool> direct_;
  bool here_ = true;  // whether the file still stands at path_
  std::mutex cache_mutex_;
  uint64_t cached_bytes_ = 0;  // guarded by cache_mutex_; written since the last drop
};

// Bytes free for this user in the folder of `path`; the largest number when the file system does not say. Errors: Io.
Result<uint64_t> FreeBytesBeside(const std::string& path);

// The folder part of `path` ("." when it has none).
std::string FolderOf(const std::string& path);

// "1.5 GiB" for messages.
std::string SizeText(uint64_t bytes);

}  // namespace estream
