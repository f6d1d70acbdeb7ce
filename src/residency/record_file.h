// SPDX-License-Identifier: Apache-2.0
// A file that records are read from, past the page cache where the file system allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "estream/status.h"

namespace estream {

// The seam below the read engines; tests put faults here.
//
// Threads: any, at once.
class RecordFile {
 public:
  virtual ~RecordFile() = default;

  // One attempt to read, like pread: the bytes read, 0 at the end of the file, or -errno.
  virtual int64_t ReadSome(uint64_t offset, std::span<std::byte> out) = 0;
  // For engines that leave the attempt to the kernel; -1 when only ReadSome can read.
  virtual int descriptor() const = 0;
  virtual uint64_t size_now() const = 0;
  virtual const std::string& name() const = 0;  // as the user gave it

  // Whether reads bypass the page cache. Once not, never again; buffered_reason says why.
  virtual bool direct() const = 0;
  virtual std::string buffered_reason() const = 0;
  // A direct read was refused with `error`: read through the page cache from now on.
  virtual void GoBuffered(int error) = 0;
  // Buffered reads only: these bytes are in their slot, the page cache need not keep them.
  virtual void DropBehind(uint64_t offset, uint64_t bytes) = 0;
};

// Another file whose attempts to read a derived class takes into its hands; so it has no descriptor.
class WrappedFile : public RecordFile {
 public:
  explicit WrappedFile(std::shared_ptr<RecordFile> file) : file_(std::move(file)) {}

  int64_t ReadSome(uint64_t offset, std::span<std::byte> out) override { return file_->ReadSome(offset, out); }
  int descriptor() const final { return -1; }
  uint64_t size_now() const final { return file_->size_now(); }
  const std::string& name() const final { return file_->name(); }
  bool direct() const final { return file_->direct(); }
  std::string buffered_reason() const final { return file_->buffered_reason(); }
  void GoBuffered(int error) final { file_->GoBuffered(error); }
  void DropBehind(uint64_t offset, uint64_t bytes) final { file_->DropBehind(offset, bytes); }

 private:
  const std::shared_ptr<RecordFile> file_;
};

// Opens a regular file with O_DIRECT and tries one page; where either is refused, buffered and without read-ahead.
// `direct` = false asks for buffered reads at once: some disks are slower without the page cache.
//
// Errors: NotFound, Io; they name the path.
Result<std::shared_ptr<RecordFile>> OpenRecordFile(const std::string& path, bool direct = true);

}  // namespace estream
