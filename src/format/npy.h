// SPDX-License-Identifier: Apache-2.0
// Writing float matrices as NumPy .npy files (format version 1.0), row by row, in bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "estream/status.h"

namespace estream {

// Writes a [rows, cols] little-endian f32 array. Nothing stands at `path` until Finish renames the temporary file; a
// writer destroyed before Finish leaves nothing behind.
class NpyWriter {
 public:
  static Result<std::unique_ptr<NpyWriter>> Create(const std::string& path, uint64_t rows, uint64_t cols);
  virtual ~NpyWriter() = default;

  // Appends one row. Errors: InvalidArgument for a wrong length or one row too many; Io.
  virtual Status Append(std::span<const float> row) = 0;
  // Errors: InvalidArgument when rows are missing; Io.
  virtual Status Finish() = 0;
};

}  // namespace estream
