// SPDX-License-Identifier: Apache-2.0
// Rounding in integers as base/half.cc does it, since Highway's own narrowing rounds as the target likes.
#include "kernels/half_floats.h"

#include "base/half.h"
#include "base/macros.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/half_floats.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using I32 = hn::RebindToSigned<F32>;
using VI = hn::Vec<I32>;

// Magnitudes are compared as signed integers: their top bit is clear.
HWY_INLINE VI HalfBits(hn::Vec<F32> x) {
  const F32 d;
  const I32 di;
  const VI bits = hn::BitCast(di, x);
  const VI magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
  const VI odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
  const VI normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, odd), hn::Set(di, 0xFFF - 0x38000000)));
  const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  const VI subnormal = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 0x3F000000));
  VI half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)), subnormal, normal);
  half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x47800000)), half, hn::Set(di, 0x7C00));
  half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7F800000)), hn::Set(di, 0x7E00), half);
  return hn::Or(half, hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000)));
}

}  // namespace

void ToHalfTarget(const float* x, size_t n, uint16_t* out) {
  const F32 d;
  const hn::Rebind<uint16_t, F32> du16;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(hn::DemoteTo(du16, HalfBits(hn::LoadU(d, x + i))), du16, out + i);
  }
}

void FromHalfTarget(const uint16_t* x, size_t n, float* out) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  for (size_t i = 0; i < n; ++i) out[i] = HalfToFloat(x[i]);  // Highway's own knows no infinity here
#else
  const F32 d;
  const hn::Rebind<hwy::float16_t, F32> df16;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(df16, reinterpret_cast<const hwy::float16_t*>(x) + i)), d, out + i);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(ToHalfTarget);
HWY_EXPORT(FromHalfTarget);

void ToHalf(const float* x, size_t n, uint16_t* out) {
  ES_DCHECK(n % 16 == 0);
  HWY_DYNAMIC_DISPATCH(ToHalfTarget)(x, n, out);
}

void FromHalf(const uint16_t* x, size_t n, float* out) {
  ES_DCHECK(n % 16 == 0);
  HWY_DYNAMIC_DISPATCH(FromHalfTarget)(x, n, out);
}

}  // namespace estream
#endif  // HWY_ONCE
