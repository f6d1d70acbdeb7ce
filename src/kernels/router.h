// SPDX-License-Identifier: Apache-2.0
// Scoring and choosing experts, all in f32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace estream {

// logits[r, e] = Σ_i x[r, i] w[e, i], in 8 lanes and one fixed tree: bits do not depend on `rows` or the target.
//
//   x       [rows, hidden] f32, rows x_stride apart
//   w       [experts, hidden] f32 row-major
//   logits  [rows, experts] written
void RouterLogits(const float* x, size_t x_stride, uint32_t rows, const float* w, uint32_t hidden, uint32_t experts,
                  float* logits);

// p[i] = e^(p[i] - max p) / Σ, in place. Pre: n >= 1.
void Softmax(float* p, uint32_t n);

// p[i] = 1 / (1 + e^-p[i]), in place.
void Sigmoid(float* p, uint32_t n);

// chosen[0..k) = indices of the k largest scores, largest first, ties to the lowest index.
//
// Pre: k <= n; no score is NaN.  Cost: O(k n), no allocation.
void TopK(const float* scores, uint32_t n, uint32_t k, uint32_t* chosen);

}  // namespace estream
