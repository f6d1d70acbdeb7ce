// SPDX-License-Identifier: Apache-2.0
// Writing float matrices as NumPy .npy files (format version 1.0), row by row, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "estream/status.h"
#include "format/atomic_file.h"

namespace estream {

// Writes a [rows, cols] little-endian f32 array. Nothing stands at `path` until Finish renames the temporary file; a
// writer destroyed before Finish leaves nothing behind. The first error is final: every later call returns it.
class NpyWriter {
 public:
  // Errors: InvalidArgument when rows * cols * 4 does not fit a file; Io.
  static Result<std::unique_ptr<NpyWriter>> Create(const std::string& path, uint64_t rows, uint64_t cols);

  // Appends one row. Errors: InvalidArgument for a wrong length or one row too many; Io.
  Status Append(std::span<const float> row);
  // Errors: InvalidArgument when rows are missing or it was called before; Io.
  Status Finish();

 private:
  NpyWriter(std::unique_ptr<AtomicFile> file, uint64_t rows, uint64_t cols)
      : file_(std::move(file)), rows_(rows), cols_(cols) {}
  Status Put(std::span<const std::byte> bytes);
  Status Flush();

  const std::unique_ptr<AtomicFile> file_;
  const uint64_t rows_;
  const uint64_t cols_;
  uint64_t written_ = 0;  // rows
  bool finished_ = false;
  Status error_;  // the first of the file
  std::vector<std::byte> buffer_;
};

}  // namespace estream
