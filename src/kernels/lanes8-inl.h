// SPDX-License-Identifier: Apache-2.0
// Eight virtual lanes: row reductions give the same bits whatever the width of the machine's vectors.

// Per-target include guard: this header is read once for every target of a file.
#if defined(ESTREAM_KERNELS_LANES8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESTREAM_KERNELS_LANES8_INL_H_
#undef ESTREAM_KERNELS_LANES8_INL_H_
#else
#define ESTREAM_KERNELS_LANES8_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

using D8 = hwy::HWY_NAMESPACE::CappedTag<float, 8>;
using V8 = hwy::HWY_NAMESPACE::VFromD<D8>;
inline constexpr size_t kLanes8 = 8;
inline constexpr size_t kPartLanes = hwy::HWY_NAMESPACE::MaxLanes(D8());
inline constexpr size_t kParts = kLanes8 / kPartLanes;

// Eight floats: one vector where vectors hold eight or more, several shorter ones elsewhere.
struct F8 {
  F8() {}  // g++ compiles one of its own for the baseline, where NEON vectors do not exist
  V8 part[kParts];
};

// out.part[i] = f(a.part[i], ...), unrolled.
template <class F, class... Args>
HWY_INLINE F8 Map8(const F& f, const Args&... args) {
  F8 out;
  for (size_t i = 0; i < kParts; ++i) out.part[i] = f(args.part[i]...);
  return out;
}

HWY_INLINE F8 Set8(float x) {
  F8 out;
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hwy::HWY_NAMESPACE::Set(D8(), x);
  return out;
}

HWY_INLINE F8 Load8(const float* p) {
  F8 out;
  for (size_t i = 0; i < kParts; ++i) out.part[i] = hwy::HWY_NAMESPACE::LoadU(D8(), p + i * kPartLanes);
  return out;
}

// The first n < 8 floats, then zeros.
HWY_INLINE F8 LoadTail8(const float* p, size_t n) {
  float lanes[kLanes8] = {};
  for (size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return Load8(lanes);
}

HWY_INLINE void Store8(const F8& a, float* p) {
  for (size_t i = 0; i < kParts; ++i) hwy::HWY_NAMESPACE::StoreU(a.part[i], D8(), p + i * kPartLanes);
}

// Writes the first n < 8 lanes.
HWY_INLINE void StoreTail8(const F8& a, float* p, size_t n) {
  float lanes[kLanes8];
  Store8(a, lanes);
  for (size_t i = 0; i < n; ++i) p[i] = lanes[i];
}

HWY_INLINE F8 Add8(const F8& a, const F8& b) {
  return Map8([](V8 x, V8 y) HWY_ATTR { return hwy::HWY_NAMESPACE::Add(x, y); }, a, b);
}
HWY_INLINE F8 Mul8(const F8& a, const F8& b) {
  return Map8([](V8 x, V8 y) HWY_ATTR { return hwy::HWY_NAMESPACE::Mul(x, y); }, a, b);
}
HWY_INLINE F8 Sub8(const F8& a, const F8& b) {
  return Map8([](V8 x, V8 y) HWY_ATTR { return hwy::HWY_NAMESPACE::Sub(x, y); }, a, b);
}
HWY_INLINE F8 Max8(const F8& a, const F8& b) {
  return Map8([](V8 x, V8 y) HWY_ATTR { return hwy::HWY_NAMESPACE::Max(x, y); }, a, b);
}
// a * b + c, rounded once.
HWY_INLINE F8 MulAdd8(const F8& a, const F8& b, const F8& c) {
  return Map8([](V8 x, V8 y, V8 z) HWY_ATTR { return FusedMulAdd(D8(), x, y, z); }, a, b, c);
}

// The sum of the lanes by one fixed tree.
HWY_INLINE float Sum8(const F8& a) {
  float l[kLanes8];
  Store8(a, l);
  return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

HWY_INLINE float MaxLane8(const F8& a) {
  float l[kLanes8];
  Store8(a, l);
  float max = l[0];
  for (size_t i = 1; i < kLanes8; ++i) max = max < l[i] ? l[i] : max;
  return max;
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
