// SPDX-License-Identifier: Apache-2.0
// Both styles share one rotation; they differ in how pairs are loaded. Tails go through padded copies, so that every
// pair sees the same operations.
#include "kernels/rope.h"

#include <cmath>

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::VFromD<D>;

HWY_INLINE void Rotate(V& a, V& b, V cos, V sin) {
  const D d;
  const V rotated = FusedMulAdd(d, hn::Neg(b), sin, hn::Mul(a, cos));
  b = FusedMulAdd(d, a, sin, hn::Mul(b, cos));
  a = rotated;
}

// One vector of pairs (i, i + distance), starting at x.
HWY_INLINE void RotateVector(float* x, size_t distance, const float* cos, const float* sin) {
  const D d;
  V a = hn::LoadU(d, x);
  V b = hn::LoadU(d, x + distance);
  Rotate(a, b, hn::LoadU(d, cos), hn::LoadU(d, sin));
  hn::StoreU(a, d, x);
  hn::StoreU(b, d, x + distance);
}

// One vector of pairs (2i, 2i + 1), starting at x.
HWY_INLINE void RotateInterleavedVector(float* x, const float* cos, const float* sin) {
  const D d;
  V a, b;
  hn::LoadInterleaved2(d, x, a, b);
  Rotate(a, b, hn::LoadU(d, cos), hn::LoadU(d, sin));
  hn::StoreInterleaved2(a, b, d, x);
}

// The last `count` pairs of a head, fewer than a vector: a[i], b[i] are `step` floats apart from the next.
HWY_NOINLINE void RotateTail(float* a, float* b, size_t step, size_t count, const float* cos, const float* sin) {
  constexpr size_t kMax = hn::MaxLanes(D());
  float pairs[2 * kMax] = {};
  float angles[2 * kMax] = {};
  for (size_t i = 0; i < count; ++i) {
    pairs[i] = a[i * step];
    pairs[kMax + i] = b[i * step];
    angles[i] = cos[i];
    angles[kMax + i] = sin[i];
  }
  RotateVector(pairs, kMax, angles, angles + kMax);
  for (size_t i = 0; i < count; ++i) {
    a[i * step] = pairs[i];
    b[i * step] = pairs[kMax + i];
  }
}

HWY_NOINLINE void RotateHalves(float* x, uint32_t heads, size_t head_stride, uint32_t pairs, const float* cos,
                               const float* sin) {
  const size_t lanes = hn::Lanes(D());
  const size_t whole = pairs - pairs % lanes;
  for (uint32_t head = 0; head < heads; ++head, x += head_stride) {
    for (size_t i = 0; i < whole; i += lanes) RotateVector(x + i, pairs, cos + i, sin + i);
    if (whole != pairs) RotateTail(x + whole, x + pairs + whole, 1, pairs - whole, cos + whole, sin + whole);
  }
}

HWY_NOINLINE void RotateAdjacent(float* x, uint32_t heads, size_t head_stride, uint32_t pairs, const float* cos,
                                 const float* sin) {
  const size_t lanes = hn::Lanes(D());
  const size_t whole = pairs - pairs % lanes;
  for (uint32_t head = 0; head < heads; ++head, x += head_stride) {
    for (size_t i = 0; i < whole; i += lanes) RotateInterleavedVector(x + 2 * i, cos + i, sin + i);
    if (whole != pairs) RotateTail(x + 2 * whole, x + 2 * whole + 1, 2, pairs - whole, cos + whole, sin + whole);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(RotateHalves);
HWY_EXPORT(RotateAdjacent);

void RopeFrequencies(uint32_t pairs, float base, float factor, double* frequencies) {
  for (uint32_t i = 0; i < pairs; ++i) frequencies[i] = std::pow(double{base}, -1.0 * i / pairs) / double{factor};
}

void RopeAngles(uint32_t position, uint32_t pairs, const double* frequencies, float* cos, float* sin) {
  for (uint32_t i = 0; i < pairs; ++i) {
    const double angle = position * frequencies[i];
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
  }
}

void RotateHalves(float* x, uint32_t heads, size_t head_stride, uint32_t pairs, const float* cos, const float* sin) {
  HWY_DYNAMIC_DISPATCH(RotateHalves)(x, heads, head_stride, pairs, cos, sin);
}

void RotateAdjacent(float* x, uint32_t heads, size_t head_stride, uint32_t pairs, const float* cos, const float* sin) {
  HWY_DYNAMIC_DISPATCH(RotateAdjacent)(x, heads, head_stride, pairs, cos, sin);
}

}  // namespace estream
#endif  // HWY_ONCE
