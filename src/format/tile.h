// SPDX-License-Identifier: Apache-2.0
// The order in which devices read weights: 32 x 32 tiles in panels of 32 rows, the same bytes for every SIMD width.
//
// A panel is 32 output rows x K reduction elements, stored as planes; a plane runs over all K/32 tiles (super-scales:
// over all K/256) and is padded to 128 bytes. Every form reproduces the source's values exactly: scales stay separate,
// nothing is folded.
//
// Nibble plane, 512 bytes a tile, 4 lines of 128: line j holds for row r and i in 0..3, byte 4r+i: low nibble = element
// 8j+i of the tile, high nibble = element 8j+4+i. High bits (Q5_*): 128 bytes a tile, byte 4r+i, bit 2j+h belongs to
// line j, h = 1 for the high nibble. Two high bits (Q6_K): 256 bytes a tile, line floor(j/2), byte 4r+i, bits 2*(2*(j
// mod 2)+h) and the next. Q8_0: 1024 bytes a tile, 8 lines; line s, byte 4r+i = element 4s+i as int8. Scale planes hold
// one fp16 (d, m) or one byte (sc, mn; Q6_K: two int8 sc a tile, for elements 0-15 then 16-31, each 32 rows) a row,
// rows consecutive. F32, F16, BF16: element-major, value of element k and row r at index 32k + r.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/weight_format.h"

namespace estream {

inline constexpr uint32_t kTileRows = 32;
inline constexpr uint32_t kTileElements = 32;
inline constexpr uint32_t kPlaneAlignment = 128;

// Where the planes of one panel lie, in bytes from its start; planes a format does not have are kNoPlane.
struct PanelLayout {
  static constexpr uint64_t kNoPlane = ~uint64_t{0};
  uint64_t values = kNoPlane;     // nibbles, int8 or floats
  uint64_t high = kNoPlane;       // high bits
  uint64_t scale = kNoPlane;      // fp16 d a block of 32 (Q4_0..Q8_0); byte sc (Q4_K, Q5_K); int8 sc per 16 (Q6_K)
  uint64_t min = kNoPlane;        // fp16 m a block (Q4_1, Q5_1); byte mn (Q4_K, Q5_K)
  uint64_t super = kNoPlane;      // fp16 d per 256 (K formats)
  uint64_t super_min = kNoPlane;  // fp16 dmin per 256 (Q4_K, Q5_K)
  uint64_t bytes = 0;             // of the panel
};

// Whether rows of `cols` elements can be tiled: cols is a multiple of 32 and of the format's block.
bool CanTile(WeightFormat format, uint64_t cols);

// Pre: CanTile(format, cols).
PanelLayout MakePanelLayout(WeightFormat format, uint64_t cols);

// Bytes of a [rows, cols] matrix as ceil(rows / 32) consecutive panels. Pre: CanTile.
uint64_t TiledBytes(WeightFormat format, uint64_t rows, uint64_t cols);

// Writes one panel from up to 32 rows in GGUF layout. Rows beyond `rows` decode to zero.
//
//   src        [rows] rows of RowBytes(format, cols), `row_stride` bytes apart
//   panel      [MakePanelLayout(format, cols).bytes]; every byte is written, padding as zero
void EncodePanel(WeightFormat format, const std::byte* src, uint64_t row_stride, uint32_t rows, uint64_t cols,
                 std::byte* panel);

// out[32 * k + r] = value of element first + k, row r, exact; the plain scalar decoder that others are tested against.
//
//   out        [count, 32] f32, element-major
//
// Pre: first and count are multiples of 32; first + count <= cols.
void DecodePanel(WeightFormat format, const std::byte* panel, uint64_t cols, uint64_t first, uint64_t count,
                 float* out);

}  // namespace estream
