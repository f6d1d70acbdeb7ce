// SPDX-License-Identifier: Apache-2.0
// Reading big files without filling the page cache: direct where the file system allows it, dropped behind otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "estream/status.h"
#include "format/file.h"

namespace estream {

// Any offset, length and address may be asked for. Whole pages go straight to where they are wanted when address and
// offset agree modulo the page size; else through a small buffer.
class DirectFile final : public RandomAccessFile {
 public:
  // Errors: as OpenFile.
  static Result<std::shared_ptr<const DirectFile>> Open(const std::string& path);
  ~DirectFile() override;

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }

  // Whether reads have bypassed the page cache so far; once refused they stay buffered.
  bool direct() const { return direct_; }

 private:
  DirectFile(int direct_fd, int buffered_fd, uint64_t size, std::string name)
      : direct_fd_(direct_fd),
        buffered_fd_(buffered_fd),
        size_(size),
        name_(std::move(name)),
        direct_(direct_fd >= 0) {}
  size_t ReadDirect(uint64_t offset, std::span<std::byte> out) const;
  size_t ReadPages(uint64_t offset, std::span<std::byte> out) const;
  Status ReadBuffered(uint64_t offset, std::span<std::byte> out) const;

  const int direct_fd_;  // -1: refused when opened
  const int buffered_fd_;
  const uint64_t size_;
  const std::string name_;
  mutable std::atomic<bool> direct_;
};

}  // namespace estream
