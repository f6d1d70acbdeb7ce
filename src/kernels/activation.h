// SPDX-License-Identifier: Apache-2.0
// Element-wise functions between matrix products.
#pragma once

#include <cstddef>

namespace estream {

// out[i] = SiLU(gate[i]) * up[i], with SiLU(g) = g / (1 + e^-g).   (eq. 1)
//
//   gate, up, out  [n] f32; out may be gate or up
void SwiGlu(const float* gate, const float* up, size_t n, float* out);

// out[i] = a[i] + b[i].   out may be a or b.
void Add(const float* a, const float* b, size_t n, float* out);

// y[i] = fma(weight, x[i], y[i]).   y not aliased with x.   (eq. 2)
void AddScaled(float weight, const float* x, size_t n, float* y);

// out[i] = e^x[i], under 2 units in the last place; exactly 0 below -87.33, never infinite (kernels/exp-inl.h).
void Exp(const float* x, size_t n, float* out);

}  // namespace estream
