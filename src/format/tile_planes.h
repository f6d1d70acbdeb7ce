// SPDX-License-Identifier: Apache-2.0
// What the planes of a tiled panel are made of: bytes a tile, where an element's bits lie, and their scalar reader.
#pragma once

#include <cstdint>

#include "format/tile.h"

namespace estream {

inline constexpr uint32_t kLineBytes = 128;    // 32 rows x 4 elements
inline constexpr uint32_t kTilesPerSuper = 8;  // a super-scale serves 256 elements

// Bytes of each plane: values, high, scale and min a tile; super and super_min a super-block of 8 tiles. 0: no such
// plane.
struct PlaneBytes {
  uint32_t values = 0;
  uint32_t high = 0;
  uint32_t scale = 0;
  uint32_t min = 0;
  uint32_t super = 0;
  uint32_t super_min = 0;
};

PlaneBytes PlaneBytesOf(WeightFormat format);

// Element 8 * line + 4 * half + byte of a tile lies in that line, in byte 4 * row + byte, in the high nibble when half.
struct NibblePlace {
  uint32_t line;
  uint32_t byte;
  uint32_t half;
};

constexpr NibblePlace PlaceOfElement(uint32_t element) { return {element / 8, element % 4, element / 4 % 2}; }

// One row of a tile of a block format, unpacked: element e is scale * factor[e / 16] * q[e], plus min where has_min;
// both products are exact in float, the sum rounds once.
struct TileRow {
  int q[kTileElements];
  int factor[2] = {1, 1};  // other than 1 in Q6_K only
  float scale = 0;
  float min = 0;
  bool has_min = false;
};

// Pre: the format is none of F32, F16 and BF16; CanTile(format, cols); tile < cols / 32; row < 32.
TileRow ReadTileRow(WeightFormat format, const std::byte* panel, uint64_t cols, uint64_t tile, uint32_t row);

}  // namespace estream
