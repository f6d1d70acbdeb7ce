// SPDX-License-Identifier: Apache-2.0
// Two passes over a row: the sum of squares, then the scaled copy.
#include "kernels/norm.h"

#include <cmath>

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/lanes8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

HWY_NOINLINE void RmsNorm(const float* x, const float* weight, size_t n, float epsilon, float* out) {
  const size_t whole = n - n % kLanes8;
  F8 squares = Set8(0);
  for (size_t i = 0; i < whole; i += kLanes8) {
    const F8 v = Load8(x + i);
    squares = MulAdd8(v, v, squares);
  }
  const F8 tail = LoadTail8(x + whole, n - whole);
  squares = MulAdd8(tail, tail, squares);

  const F8 scale = Set8(1.0f / std::sqrt(Sum8(squares) / static_cast<float>(n) + epsilon));
  for (size_t i = 0; i < whole; i += kLanes8) Store8(Mul8(Mul8(Load8(x + i), scale), Load8(weight + i)), out + i);
  StoreTail8(Mul8(Mul8(tail, scale), LoadTail8(weight + whole, n - whole)), out + whole, n - whole);
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(RmsNorm);

void RmsNorm(const float* x, const float* weight, size_t n, float epsilon, float* out) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(x, weight, n, epsilon, out);
}

}  // namespace estream
#endif  // HWY_ONCE
