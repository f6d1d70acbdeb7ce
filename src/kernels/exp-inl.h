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

// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln(2) / 2. The Taylor polynomial of degree 7 leaves a relative
// error of r^8 / 8! <= 5.2e-9, a twelfth of half a unit in the last place; rounding dominates (under 2 units, tested).
//
// Below -87.33, where normal floats end, the result is exactly 0, above 88 it is e^88, so it is always finite; NaN
// stays NaN.
template <class D, class V = hwy::HWY_NAMESPACE::VFromD<D>>
HWY_INLINE V Exp(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const V lowest = hn::Set(d, -87.33f);
  const V one = hn::Set(d, 1.0f);
  const V bounded = hn::Min(hn::Set(d, 88.0f), hn::Max(lowest, x));
  const V n = hn::Round(hn::Mul(bounded, hn::Set(d, 0x1.715476p+0f)));  // 1 / ln 2
  // ln 2 in two parts; the upper one has 15 significant bits and |n| < 128, so the first step loses nothing.
  const V upper = FusedMulAdd(d, n, hn::Set(d, -0x1.62e4p-1f), bounded);
  const V r = FusedMulAdd(d, n, hn::Set(d, -0x1.7f7d1cp-20f), upper);
  V p = hn::Set(d, 1.0f / 5040);
  p = FusedMulAdd(d, p, r, hn::Set(d, 1.0f / 720));
  p = FusedMulAdd(d, p, r, hn::Set(d, 1.0f / 120));
  p = FusedMulAdd(d, p, r, hn::Set(d, 1.0f / 24));
  p = FusedMulAdd(d, p, r, hn::Set(d, 1.0f / 6));
  p = FusedMulAdd(d, p, r, hn::Set(d, 1.0f / 2));
  p = FusedMulAdd(d, p, r, one);
  p = FusedMulAdd(d, p, r, one);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127))));
  const V y = hn::IfThenZeroElse(hn::Lt(x, lowest), hn::Mul(p, power));
  return hn::IfThenElse(hn::IsNaN(x), x, y);  // what Min and Max make of NaN depends on the target
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
