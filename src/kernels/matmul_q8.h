// SPDX-License-Identifier: Apache-2.0
// Matrix products of tiled weights with int8 activations: exact integers inside a block of 32, float between blocks.
//
// Per output and block, in ascending order of blocks, with w the block's integer weights less their offset:
//   c = fma(fl(weight_scale * scale), float(sum w q), c);  and for formats with a min  c = fma(min, scaled_sum, c)
// so that bits do not depend on row count, blocking or target.                                             (design rule
// 2)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/weight_format.h"
#include "kernels/quantize.h"

namespace estream {

// Whether MatMulPanelQ8 computes with `format`: all but F32, F16 and BF16, which take float activations.
bool HasQ8(WeightFormat format);

// How a product gets at its weights; the bits are the same.
enum class Q8Path {
  kFastest,   // the next for few rows, the last for many
  kStored,    // from the panel to registers, for each few rows anew
  kPrepared,  // unpacked to memory tile by tile, once for up to 96 rows
};

// c[r, n] = sum_k a[first_row + r, k] * w[n, k] for n < 32, r < rows: rows of activations against one tiled panel.
//
//   panel     [MakePanelLayout(format, a.cols).bytes]
//   a         quantised rows; first_row + rows <= a.rows
//   c         [rows, 32] f32, rows c_stride floats apart; overwritten
//   next      the panel that this thread multiplies next, of any matrix, or empty: brought into the cache meanwhile
//
// Pre:  HasQ8(format); CanTile(format, a.cols).
// Cost: no allocation; 16 KiB of stack.
void MatMulPanelQ8(WeightFormat format, const std::byte* panel, const QuantizedRows& a, uint32_t first_row,
                   uint32_t rows, float* c, size_t c_stride, std::span<const std::byte> next = {},
                   Q8Path path = Q8Path::kFastest);

}  // namespace estream
