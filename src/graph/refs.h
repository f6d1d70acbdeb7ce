// SPDX-License-Identifier: Apache-2.0
// How descriptions name data: buffers by number and offset, parts of a record by offset. Never a host pointer, so that
// a device in another address space can execute the same bytes.
#pragma once

#include <cstdint>

#include "format/weight_format.h"

namespace estream {

// A place in a buffer that the device allocated. Buffer 0 is none.
struct BufferRef {
  uint32_t buffer = 0;
  uint32_t reserved = 0;
  uint64_t offset = 0;  // bytes

  bool none() const { return buffer == 0; }
  BufferRef operator+(uint64_t bytes) const { return {buffer, 0, offset + bytes}; }
  bool operator==(const BufferRef&) const = default;
};
static_assert(sizeof(BufferRef) == 16);

// A tiled [rows, cols] matrix (format/tile.h) inside a record; rows are outputs, cols the reduction.
struct MatrixSpec {
  WeightFormat format = WeightFormat::kF32;
  uint32_t rows = 0;
  uint32_t cols = 0;
  uint32_t reserved = 0;
  uint64_t offset = 0;  // bytes from the start of the record

  bool operator==(const MatrixSpec&) const = default;
};
static_assert(sizeof(MatrixSpec) == 24);

// `count` f32 values inside a record.
struct VectorSpec {
  uint32_t count = 0;
  uint32_t reserved = 0;
  uint64_t offset = 0;

  bool operator==(const VectorSpec&) const = default;
};
static_assert(sizeof(VectorSpec) == 16);

}  // namespace estream
