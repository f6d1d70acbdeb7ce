// SPDX-License-Identifier: Apache-2.0
// Reading a GGUF header front to back through a small buffer, with every length checked before it is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/macros.h"
#include "estream/status.h"
#include "format/file.h"

namespace estream {

// Invariant: position() <= file size; what is buffered is file bytes [buffer_start_, buffer_start_ + buffer_.size()).
class GgufCursor {
 public:
  explicit GgufCursor(const RandomAccessFile& file) : file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_.size() - position_; }

  // What is being read, as the subject of messages: `key "general.name"`, `tensor 3 of 40`.
  void set_subject(std::string subject) { subject_ = std::move(subject); }
  // "<file>: <subject> <problem>" as Corrupt.
  Status Corrupt(const std::string& problem) const;

  // The next sizeof(T) bytes.
  template <class T>
  Result<T> Scalar() {
    T value;
    ES_RETURN_IF_ERROR(Read(std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  // Errors: Corrupt when the file ends before; Unsupported when the header is longer than any real one; Io.
  Status Read(std::span<std::byte> out);
  Status Skip(uint64_t bytes);

  // File bytes [start, position()), read anew in one piece. Pre: start <= position().
  Result<std::vector<std::byte>> BytesSince(uint64_t start) const;

 private:
  Status CheckAvailable(uint64_t bytes) const;
  Status Fill();

  const RandomAccessFile& file_;
  uint64_t position_ = 0;
  std::string subject_ = "the header";
  uint64_t buffer_start_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace estream
