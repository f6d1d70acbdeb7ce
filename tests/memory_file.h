// SPDX-License-Identifier: Apache-2.0
// Files that are not on a disk, and files that fail when told to: what tests and fuzzers put behind RandomAccessFile.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "estream/status.h"
#include "format/file.h"

namespace estream {

// Bytes in memory.
class MemoryFile final : public RandomAccessFile {
 public:
  explicit MemoryFile(std::string bytes, std::string name = "memory.gguf")
      : bytes_(std::move(bytes)), name_(std::move(name)) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return Status::Corrupt(name_ + ": ends too early");
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return Status::Ok();
  }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& name() const override { return name_; }

 private:
  const std::string bytes_;
  const std::string name_;
};

// Another file, counting what is read of it; read number `failing_read` (from 0) fails.
class FaultyFile final : public RandomAccessFile {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};
  explicit FaultyFile(std::shared_ptr<const RandomAccessFile> file, uint64_t failing_read = kNever)
      : file_(std::move(file)), failing_read_(failing_read) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (reads_++ == failing_read_) return Status::Io(name() + ": cannot be read: Input/output error");
    bytes_ += out.size();
    return file_->ReadAt(offset, out);
  }
  uint64_t size() const override { return file_->size(); }
  const std::string& name() const override { return file_->name(); }

  uint64_t reads() const { return reads_; }
  uint64_t bytes_read() const { return bytes_; }

 private:
  const std::shared_ptr<const RandomAccessFile> file_;
  const uint64_t failing_read_;
  mutable std::atomic<uint64_t> reads_{0};
  mutable std::atomic<uint64_t> bytes_{0};
};

}  // namespace estream
