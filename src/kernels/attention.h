// SPDX-License-Identifier: Apache-2.0
// The online softmax between the two matrix products of blocked attention.
#pragma once

#include <cstddef>
#include <cstdint>

namespace estream {

// Keys are cut at multiples of this many absolute positions.
inline constexpr uint32_t kKeyBlock = 64;

// Takes one key block into the running softmax of `rows` query rows. Per row, over its first `visible` keys:
//   m' = max(max, scale * scores);  p = exp(scale * scores - m');  a = exp(max - m')
//   sum = a * sum + Σ p;  out = a * out;  max = m';  scores = p, exact zeros from `visible` on
//
//   scores   [rows, 64] f32: q kᵀ on entry, probabilities (not yet divided by the sum) on return
//   visible  [rows] 1..64
//   scale    positive
//   max, sum [rows]; before the first block -infinity and 0
//   out      [rows, width] f32, rows out_stride apart, width a multiple of 8; the caller then adds p v
//
// The sum runs in 8 lanes and one fixed tree: the same bits on every target and for any `rows`.
void SoftmaxBlock(float* scores, uint32_t rows, const uint32_t* visible, float scale, float* max, float* sum,
                  float* out, size_t out_stride, size_t width);

}  // namespace estream
