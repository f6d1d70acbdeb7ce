// SPDX-License-Identifier: Apache-2.0
// The weight formats EStream computes with, as GGUF stores them: blocks along a row, exact dequantisation.
//
// The GGUF specification gives type ids and block layouts; all multi-byte fields are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "estream/status.h"

namespace estream {

// Values are GGUF's own type ids, so that a format can be named in files.
enum class WeightFormat : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

// Every format, in the order of its id.
std::span<const WeightFormat> AllWeightFormats();

struct WeightFormatTraits {
  const char* name;         // as users know it: "Q4_0"
  uint32_t block_elements;  // values a block
  uint32_t block_bytes;
};

const WeightFormatTraits& Traits(WeightFormat format);

// Errors: Unsupported, naming the type, when GGUF knows `gguf_type` and EStream does not compute with it, or nobody
// does.
Result<WeightFormat> WeightFormatFromGgufType(uint32_t gguf_type);

// Bytes of a row of `elements` values. Pre: elements is a multiple of the format's block_elements.
uint64_t RowBytes(WeightFormat format, uint64_t elements);

// dst[i] = the value of element i, exact in float (what the block's definition gives, evaluated in float).
//
//   src      [RowBytes(format, elements)] blocks in GGUF layout, any alignment
//   dst      [elements] f32
//
// Pre: elements is a multiple of block_elements.
void DequantizeRow(WeightFormat format, const std::byte* src, float* dst, uint64_t elements);

// The index of the first element whose block scale (or own value, for F32, F16 and BF16) is NaN or infinite, or
// nothing. A zero scale is legal. Reads scales only.
std::optional<uint64_t> FindNonFinite(WeightFormat format, const std::byte* src, uint64_t elements);

}  // namespace estream
