// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation of rows.
#pragma once

#include <cstddef>

namespace estream {

// out[i] = x[i] / sqrt(mean(x²) + epsilon) * weight[i].
//
//   x, weight, out  [n] f32; out may be x
//
// The sum of squares runs in 8 lanes and one fixed tree: the same bits on every target.
void RmsNorm(const float* x, const float* weight, size_t n, float epsilon, float* out);

}  // namespace estream
