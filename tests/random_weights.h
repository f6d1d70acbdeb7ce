// SPDX-License-Identifier: Apache-2.0
// Random matrices of every format whose values have the size of a trained layer's, so that products of them stay near
// 1; and records made of them.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/checked_math.h"
#include "base/half.h"
#include "format/tile.h"
#include "graph/refs.h"
#include "tests/random.h"

namespace estream {

// How to make a block of random bytes decode to values of size 1: scale d at `d_at`, min at `min_at`.
struct BlockSize {
  float d;          // 1 / (root mean square of the codes)
  int d_at;         // byte offset of fp16 d
  int min_at = -1;  // byte offset of fp16 m or dmin, if any
  float min = 0;    // m or dmin as a multiple of d: centres the codes
};

inline BlockSize SizeOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0:
      return {1 / 4.6f, 0};
    case WeightFormat::kQ4_1:
      return {1 / 4.6f, 0, 2, -7.5f};
    case WeightFormat::kQ5_0:
      return {1 / 9.2f, 0};
    case WeightFormat::kQ5_1:
      return {1 / 9.2f, 0, 2, -15.5f};
    case WeightFormat::kQ8_0:
      return {1 / 74.0f, 0};
    case WeightFormat::kQ4_K:
      return {1 / 250.0f, 0, 2, 7.5f};
    case WeightFormat::kQ5_K:
      return {1 / 500.0f, 0, 2, 15.5f};
    default:
      return {1 / 1400.0f, 208};  // Q6_K
  }
}

// `rows` rows of `cols` values of size about 1 / sqrt(cols), in GGUF layout.
inline std::vector<std::byte> RandomWeights(WeightFormat format, uint64_t rows, uint64_t cols, Random& random) {
  const WeightFormatTraits& traits = Traits(format);
  const float size = 1 / std::sqrt(static_cast<float>(cols));
  std::vector<std::byte> out(rows * RowBytes(format, cols));
  for (size_t at = 0; at < out.size(); at += traits.block_bytes) {
    std::byte* const block = out.data() + at;
    if (traits.block_elements == 1) {
      const float value = random.Uniform(-1.7f, 1.7f) * size;
      const uint16_t half = format == WeightFormat::kF16 ? FloatToHalf(value)
                                                         : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      if (format == WeightFormat::kF32) std::memcpy(block, &value, sizeof(value));
      if (format != WeightFormat::kF32) std::memcpy(block, &half, sizeof(half));
      continue;
    }
    for (uint32_t i = 0; i < traits.block_bytes; ++i) block[i] = static_cast<std::byte>(random.Bits());
    const BlockSize block_size = SizeOf(format);
    const float d = block_size.d * size * random.Uniform(0.5f, 1.5f);
    const uint16_t d_half = FloatToHalf(d), min_half = FloatToHalf(d * block_size.min);
    std::memcpy(block + block_size.d_at, &d_half, sizeof(d_half));
    if (block_size.min_at >= 0) std::memcpy(block + block_size.min_at, &min_half, sizeof(min_half));
  }
  return out;
}

// A record put together from random parts, each on a multiple of 128 bytes.
class RandomRecord {
 public:
  explicit RandomRecord(Random& random) : random_(random) {}

  MatrixSpec Matrix(WeightFormat format, uint32_t rows, uint32_t cols) {
    const MatrixSpec spec{format, rows, cols, 0, Grow(TiledBytes(format, rows, cols))};
    const std::vector<std::byte> source = RandomWeights(format, rows, cols, random_);
    const uint64_t row_bytes = RowBytes(format, cols), panel_bytes = MakePanelLayout(format, cols).bytes;
    for (uint32_t row = 0; row < rows; row += kTileRows) {
      EncodePanel(format, source.data() + row * row_bytes, row_bytes, std::min(kTileRows, rows - row), cols,
                  bytes_.data() + spec.offset + row / kTileRows * panel_bytes);
    }
    return spec;
  }

  VectorSpec Vector(uint32_t count, float low, float high) {
    const VectorSpec spec{count, 0, Grow(uint64_t{count} * sizeof(float))};
    const std::vector<float> values = random_.Floats(count, low, high);
    std::memcpy(bytes_.data() + spec.offset, values.data(), count * sizeof(float));
    return spec;
  }

  // Pads the record to whole pages and returns it.
  const std::vector<std::byte>& Finish() {
    bytes_.resize(AlignUp(bytes_.size(), 4096));
    return bytes_;
  }

 private:
  uint64_t Grow(uint64_t bytes) {
    const uint64_t offset = AlignUp(bytes_.size(), 128);
    bytes_.resize(offset + bytes);
    return offset;
  }

  Random& random_;
  std::vector<std::byte> bytes_;
};

}  // namespace estream
