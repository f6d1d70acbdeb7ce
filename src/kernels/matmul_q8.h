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

#include "format/weight_format.h"
#include "kernels/quantize.h"

namespace estream {

// Whether MatMulPanelQ8 computes with `format`: all but F32, F16 and BF16, which take float activations.
bool HasQ8(WeightFormat format);

// c[r, n] = sum_k a[first_row + r, k] * w[n, k] for n < 32, r < rows: rows of activations against one tiled panel.
//
//   panel     [MakePanelLayout(format, a.cols).bytes]; read as it is stored, nothing is decoded ahead
//   a         quantised rows; first_row + rows <= a.rows
//   c         [rows, 32] f32, rows c_stride floats apart; overwritten
//
// Pre:  HasQ8(format); CanTile(format, a.cols).
// Cost: no allocation; 16 KiB of stack.
void MatMulPanelQ8(WeightFormat format, const std::byte* panel, const QuantizedRows& a, uint32_t first_row,
                   uint32_t rows, float* c, size_t c_stride);

}  // namespace estream
