// SPDX-License-Identifier: Apache-2.0
// A row's 64 scores are eight groups of eight lanes. Groups beyond the last visible key count nothing and become zeros.
#include "kernels/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/exp-inl.h"
#include "kernels/lanes8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

HWY_INLINE F8 Exp8(const F8& x) {
  return Map8([](V8 v) HWY_ATTR { return Exp(D8(), v); }, x);
}

// The maximum of the first `visible` scores. Later ones become -infinity up to a whole group.
HWY_INLINE float RowMax(float* scores, uint32_t visible) {
  const float kNone = -std::numeric_limits<float>::infinity();
  std::fill(scores + visible, scores + (visible + kLanes8 - 1) / kLanes8 * kLanes8, kNone);
  F8 max = Set8(kNone);
  for (size_t i = 0; i < visible; i += kLanes8) max = Max8(max, Load8(scores + i));
  return MaxLane8(max);
}

// scores = exp(scale * scores - max) for kCount vectors of them.
template <size_t kCount>
HWY_INLINE void ExpStep(float* scores, float scale, float max) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, 16> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> p[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    p[i] = hn::Sub(hn::Mul(hn::LoadU(d, scores + i * lanes), hn::Set(d, scale)), hn::Set(d, max));
  }
  ExpTogether<true>(d, p);
  for (size_t i = 0; i < kCount; ++i) hn::StoreU(p[i], d, scores + i * lanes);
}

// scores = exp(scale * scores - max), zeros from `visible` on; returns their sum.
HWY_INLINE float ExpAndSum(float* scores, uint32_t visible, float scale, float max) {
  constexpr size_t kTogether = 4 * hwy::HWY_NAMESPACE::MaxLanes(hwy::HWY_NAMESPACE::CappedTag<float, 16>());
  F8 sum = Set8(0);
  for (size_t i = 0; i < visible; i += kTogether) ExpStep<4>(scores + i, scale, max);
  std::fill(scores + visible, scores + kKeyBlock, 0.0f);
  for (size_t i = 0; i < visible; i += kLanes8) sum = Add8(sum, Load8(scores + i));
  return Sum8(sum);
}

// n <= 8 rows, step by step together: within a row each step waits for the one before.
HWY_INLINE void SoftmaxRows(float* scores, uint32_t n, const uint32_t* visible, float scale, float* max, float* sum,
                            float* factors) {
  float row_max[kLanes8] = {};
  for (uint32_t r = 0; r < n; ++r) row_max[r] = RowMax(scores + r * kKeyBlock, visible[r]);
  const F8 old_max = LoadTail8(max, n);
  const F8 new_max = Max8(old_max, Mul8(Load8(row_max), Set8(scale)));
  StoreTail8(new_max, max, n);
  Store8(Exp8(Sub8(old_max, new_max)), factors);
  for (uint32_t r = 0; r < n; ++r) {
    sum[r] = factors[r] * sum[r] + ExpAndSum(scores + r * kKeyBlock, visible[r], scale, max[r]);
  }
}

HWY_NOINLINE void SoftmaxBlock(float* scores, uint32_t rows, const uint32_t* visible, float scale, float* max,
                               float* sum, float* out, size_t out_stride, size_t width) {
  for (uint32_t first = 0; first < rows; first += kLanes8) {
    const uint32_t n = std::min<uint32_t>(kLanes8, rows - first);
    float factors[kLanes8];
    SoftmaxRows(scores + first * kKeyBlock, n, visible + first, scale, max + first, sum + first, factors);
    for (uint32_t r = 0; r < n; ++r) {
      if (factors[r] == 1) continue;  // times one changes no bit
      float* const row = out + (first + r) * out_stride;
      for (size_t i = 0; i < width; i += kLanes8) Store8(Mul8(Load8(row + i), Set8(factors[r])), row + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(SoftmaxBlock);

void SoftmaxBlock(float* scores, uint32_t rows, const uint32_t* visible, float scale, float* max, float* sum,
                  float* out, size_t out_stride, size_t width) {
  HWY_DYNAMIC_DISPATCH(SoftmaxBlock)(scores, rows, visible, scale, max, sum, out, out_stride, width);
}

}  // namespace estream
#endif  // HWY_ONCE
