// SPDX-License-Identifier: Apache-2.0
// A row's 64 scores are eight groups of eight lanes. Groups beyond the last visible key are not computed, only zeroed.
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

// exp of one number by the same steps as the vectors.
HWY_INLINE float Exp1(float x) {
  float lanes[kLanes8];
  Store8(Exp8(Set8(x)), lanes);
  return lanes[0];
}

// scores *= scale; the maximum of the first `visible` and `max`. Later scores become -infinity up to a whole group.
HWY_INLINE float ScaleAndMax(float* scores, uint32_t visible, float scale, float max) {
  F8 lane_max = Set8(max);
  for (size_t i = 0; i < visible; i += kLanes8) {
    F8 s = Mul8(Load8(scores + i), Set8(scale));
    Store8(s, scores + i);
    if (i + kLanes8 > visible) {
      std::fill(scores + visible, scores + i + kLanes8, -std::numeric_limits<float>::infinity());
      s = Load8(scores + i);
    }
    lane_max = Max8(lane_max, s);
  }
  return MaxLane8(lane_max);
}

// scores = exp(scores - max), zeros from `visible` on; returns their sum.
HWY_INLINE float ExpAndSum(float* scores, uint32_t visible, float max) {
  F8 sum = Set8(0);
  size_t i = 0;
  for (; i < visible; i += kLanes8) {
    const F8 p = Exp8(Sub8(Load8(scores + i), Set8(max)));
    Store8(p, scores + i);
    sum = Add8(sum, p);
  }
  std::fill(scores + visible, scores + kKeyBlock, 0.0f);
  return Sum8(sum);
}

HWY_NOINLINE void SoftmaxBlock(float* scores, uint32_t rows, const uint32_t* visible, float scale, float* max,
                               float* sum, float* out, size_t out_stride, size_t width) {
  for (uint32_t r = 0; r < rows; ++r, scores += kKeyBlock, out += out_stride) {
    const float new_max = ScaleAndMax(scores, visible[r], scale, max[r]);
    const float rescale = Exp1(max[r] - new_max);
    sum[r] = rescale * sum[r] + ExpAndSum(scores, visible[r], new_max);
    max[r] = new_max;
    if (rescale == 1) continue;  // times one changes no bit
    for (size_t i = 0; i < width; i += kLanes8) Store8(Mul8(Load8(out + i), Set8(rescale)), out + i);
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
