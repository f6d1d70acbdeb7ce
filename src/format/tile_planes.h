// SPDX-License-Identifier: Apache-2.0
// What the planes of a tiled panel are made of: bytes a tile, and where an element's bits lie.
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

}  // namespace estream
