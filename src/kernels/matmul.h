// SPDX-License-Identifier: Apache-2.0
// Float matrix products whose bits do not depend on blocking, row count or vector width.
//
// Every output has one accumulator; k ascends; each step is one fused multiply-add. So c[r, n] is the same whether its
// row comes alone or with others, and whether k is cut into chunks (with `accumulate`) or not.                 (design
// rule 2)
#pragma once

#include <cstddef>
#include <cstdint>

namespace estream {

// c[r, n] (+)= sum_k a[r, k] * b[k, n] for n < 32: rows of activations against one decoded panel.
//
//   a           [rows, k] f32, rows a_stride floats apart
//   b           [k, 32] f32 (DecodePanelF32); best aligned to 64
//   c           [rows, 32] f32, rows c_stride floats apart; not aliased with a or b
//   accumulate  the sum continues from c; otherwise it starts from zero and c may hold anything
//
// Cost: no allocation. A block of rows starts and ends in about 80 cycles, so that longer k are better: of the FMA peak
//       85 % with k 64, 92 % with 128, 96 % with 256, 98 % with 512 (where b, 64 KiB, comes from the L2 cache).
void MatMulPanel(const float* a, size_t a_stride, uint32_t rows, const float* b, size_t k, float* c, size_t c_stride,
                 bool accumulate);

// c[r, j] (+)= sum_k a[r, k] * b[k, j] for j < n: the same for any width that is a multiple of 16.
//
//   b           [k, n] f32, rows b_stride floats apart
//   c           [rows, n] f32, rows c_stride floats apart
//
// Pre: n is a multiple of 16.
void MatMul(const float* a, size_t a_stride, uint32_t rows, const float* b, size_t b_stride, size_t n, size_t k,
            float* c, size_t c_stride, bool accumulate);

}  // namespace estream
