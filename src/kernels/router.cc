// SPDX-License-Identifier: Apache-2.0
// Dot products two rows by four experts at a time: eight chains hide the latency of a fused multiply-add, and each
// weight is loaded once for two rows.
#include "kernels/router.h"

#include <algorithm>

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/router.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/exp-inl.h"
#include "kernels/lanes8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

constexpr uint32_t kExpertsAtOnce = 4;

// out[4 * row + j] = x_row · w_j for two rows; with a single row x0 = x1 costs a little and needs no second kernel.
HWY_NOINLINE void Dots2x4(const float* x0, const float* x1, const float* const w[kExpertsAtOnce], size_t n,
                          float* out) {
  const float *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
  F8 sum00 = Set8(0), sum01 = Set8(0), sum02 = Set8(0), sum03 = Set8(0);
  F8 sum10 = Set8(0), sum11 = Set8(0), sum12 = Set8(0), sum13 = Set8(0);
  const auto step = [&](const auto& load) HWY_ATTR {
    const F8 a0 = load(x0), a1 = load(x1);
    F8 b = load(w0);
    sum00 = MulAdd8(a0, b, sum00);
    sum10 = MulAdd8(a1, b, sum10);
    b = load(w1);
    sum01 = MulAdd8(a0, b, sum01);
    sum11 = MulAdd8(a1, b, sum11);
    b = load(w2);
    sum02 = MulAdd8(a0, b, sum02);
    sum12 = MulAdd8(a1, b, sum12);
    b = load(w3);
    sum03 = MulAdd8(a0, b, sum03);
    sum13 = MulAdd8(a1, b, sum13);
  };
  const size_t whole = n - n % kLanes8;
  for (size_t i = 0; i < whole; i += kLanes8) step([i](const float* p) HWY_ATTR { return Load8(p + i); });
  if (whole != n) step([whole, n](const float* p) HWY_ATTR { return LoadTail8(p + whole, n - whole); });
  const float sums[] = {Sum8(sum00), Sum8(sum01), Sum8(sum02), Sum8(sum03),
                        Sum8(sum10), Sum8(sum11), Sum8(sum12), Sum8(sum13)};
  std::copy_n(sums, 2 * kExpertsAtOnce, out);
}

HWY_NOINLINE void RouterLogits(const float* x, size_t x_stride, uint32_t rows, const float* w, uint32_t hidden,
                               uint32_t experts, float* logits) {
  for (uint32_t r = 0; r < rows; r += 2) {
    const uint32_t second = std::min(r + 1, rows - 1);
    for (uint32_t e = 0; e < experts; e += kExpertsAtOnce) {
      const float* four[kExpertsAtOnce];
      for (uint32_t j = 0; j < kExpertsAtOnce; ++j) four[j] = w + size_t{std::min(e + j, experts - 1)} * hidden;
      float sums[2 * kExpertsAtOnce];
      Dots2x4(x + r * x_stride, x + second * x_stride, four, hidden, sums);
      const uint32_t count = std::min(kExpertsAtOnce, experts - e);
      std::copy_n(sums, count, logits + size_t{r} * experts + e);
      std::copy_n(sums + kExpertsAtOnce, count, logits + size_t{second} * experts + e);
    }
  }
}

HWY_INLINE F8 Exp8(const F8& x) {
  return Map8([](V8 v) HWY_ATTR { return Exp(D8(), v); }, x);
}

HWY_NOINLINE void Softmax(float* p, uint32_t n) {
  const F8 max = Set8(*std::max_element(p, p + n));
  const size_t whole = n - n % kLanes8;
  F8 sum = Set8(0);
  for (size_t i = 0; i < whole; i += kLanes8) {
    const F8 e = Exp8(Sub8(Load8(p + i), max));
    sum = Add8(sum, e);
    Store8(e, p + i);
  }
  if (whole != n) {
    StoreTail8(Exp8(Sub8(LoadTail8(p + whole, n - whole), max)), p + whole, n - whole);
    sum = Add8(sum, LoadTail8(p + whole, n - whole));
  }
  const float total = Sum8(sum);
  for (uint32_t i = 0; i < n; ++i) p[i] /= total;
}

HWY_NOINLINE void Sigmoid(float* p, uint32_t n) {
  const size_t whole = n - n % kLanes8;
  for (size_t i = 0; i < whole; i += kLanes8) Store8(Exp8(Sub8(Set8(0), Load8(p + i))), p + i);
  StoreTail8(Exp8(Sub8(Set8(0), LoadTail8(p + whole, n - whole))), p + whole, n - whole);
  for (uint32_t i = 0; i < n; ++i) p[i] = 1 / (1 + p[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(RouterLogits);
HWY_EXPORT(Softmax);
HWY_EXPORT(Sigmoid);

void RouterLogits(const float* x, size_t x_stride, uint32_t rows, const float* w, uint32_t hidden, uint32_t experts,
                  float* logits) {
  HWY_DYNAMIC_DISPATCH(RouterLogits)(x, x_stride, rows, w, hidden, experts, logits);
}

void Softmax(float* p, uint32_t n) { HWY_DYNAMIC_DISPATCH(Softmax)(p, n); }

void Sigmoid(float* p, uint32_t n) { HWY_DYNAMIC_DISPATCH(Sigmoid)(p, n); }

void TopK(const float* scores, uint32_t n, uint32_t k, uint32_t* chosen) {
  // Order by (score falling, index rising): the next choice is the best that comes after the last one in that order.
  const auto before = [scores](uint32_t a, uint32_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  };
  for (uint32_t i = 0; i < k; ++i) {
    uint32_t best = n;
    for (uint32_t e = 0; e < n; ++e) {
      if (i > 0 && !before(chosen[i - 1], e)) continue;
      if (best == n || scores[e] > scores[best]) best = e;
    }
    chosen[i] = best;
  }
}

}  // namespace estream
#endif  // HWY_ONCE
