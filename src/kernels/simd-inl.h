// SPDX-License-Identifier: Apache-2.0
// Operations that Highway lacks or does not promise, one small function each; compiled once a target.

// Per-target include guard: this header is read once for every target of a file.
#if defined(ESTREAM_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESTREAM_KERNELS_SIMD_INL_H_
#undef ESTREAM_KERNELS_SIMD_INL_H_
#else
#define ESTREAM_KERNELS_SIMD_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

// a * b + c rounded once, on every target: Highway's MulAdd rounds twice where the machine has no FMA, and then bits
// would depend on the target. The fall-back is slow and exists to be right.
template <class D, class V = hwy::HWY_NAMESPACE::VFromD<D>>
HWY_INLINE V FusedMulAdd([[maybe_unused]] D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hwy::HWY_NAMESPACE::MulAdd(a, b, c);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  HWY_ALIGN float x[hn::MaxLanes(D())];
  HWY_ALIGN float y[hn::MaxLanes(D())];
  HWY_ALIGN float z[hn::MaxLanes(D())];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (size_t i = 0; i < hn::Lanes(d); ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, z);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
