// SPDX-License-Identifier: Apache-2.0
// exp in f32, the same bits on every target: argument reduction by ln 2 and a fixed polynomial, fused steps only.

// Per-target include guard: this header is read once for every target of a file.
#if defined(ESTREAM_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESTREAM_KERNELS_EXP_INL_H_
#undef ESTREAM_KERNELS_EXP_INL_H_
#else
#define ESTREAM_KERNELS_EXP_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

// x = e^x for kCount vectors, step by step together: a step waits for the one before, and one vector would leave the
// units waiting with it. kFalling: no x is above 0, which saves a step.
//
// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln(2) / 2. The Taylor polynomial of degree 7 leaves a relative
// error of r^8 / 8! <= 5.2e-9, a twelfth of half a unit in the last place; rounding dominates (under 2 units, tested).
//
// Below -87.33, where normal floats end, the result is exactly 0, above 88 it is e^88, so it is always finite; NaN
// stays NaN.
template <bool kFalling, size_t kCount, class D, class V = hwy::HWY_NAMESPACE::VFromD<D>>
HWY_INLINE void ExpTogether(D d, V (&x)[kCount]) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const V highest = hn::Set(d, 88.0f);
  const V rounder = hn::Set(d, 0x1.8p+23f);  // a float this large has no fraction: its last bits are n
  V shifted[kCount], r[kCount], p[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    r[i] = kFalling ? x[i] : hn::IfThenElse(hn::Gt(x[i], highest), highest, x[i]);  // Min may lose NaN
    shifted[i] = hn::Add(hn::Mul(r[i], hn::Set(d, 0x1.715476p+0f)), rounder);       // 1 / ln 2
    p[i] = hn::Sub(shifted[i], rounder);                                            // n
  }
  // ln 2 in two parts; the upper one has 15 significant bits and |n| < 128, so the first step loses nothing.
  for (size_t i = 0; i < kCount; ++i) r[i] = FusedMulAdd(d, p[i], hn::Set(d, -0x1.62e4p-1f), r[i]);
  for (size_t i = 0; i < kCount; ++i) r[i] = FusedMulAdd(d, p[i], hn::Set(d, -0x1.7f7d1cp-20f), r[i]);
  for (size_t i = 0; i < kCount; ++i) p[i] = FusedMulAdd(d, hn::Set(d, 1.0f / 5040), r[i], hn::Set(d, 1.0f / 720));
  for (const float c : {1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f}) {
    for (size_t i = 0; i < kCount; ++i) p[i] = FusedMulAdd(d, p[i], r[i], hn::Set(d, c));
  }
  for (size_t i = 0; i < kCount; ++i) {
    const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted[i])), hn::Set(di, 127 << 23));
    const V y = hn::Mul(p[i], hn::BitCast(d, exponent));
    x[i] = hn::IfThenZeroElse(hn::Lt(x[i], hn::Set(d, -87.33f)), y);  // whatever became of such an x above
  }
}

template <class D, class V = hwy::HWY_NAMESPACE::VFromD<D>>
HWY_INLINE V Exp(D d, V x) {
  V only[1] = {x};
  ExpTogether<false>(d, only);
  return only[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
