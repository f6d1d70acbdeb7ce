// SPDX-License-Identifier: Apache-2.0
// One loop for all of them; a tail is the same operation on a padded copy, so an element's bits do not depend on where
// in an array it stands.
#include "kernels/activation.h"

#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/exp-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::VFromD<D>;

// out[i] = f(a[i], b[i]) for i < n.
template <class F>
HWY_INLINE void Zip(const float* a, const float* b, size_t n, float* out, const F& f) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN float a_tail[hn::MaxLanes(D())] = {};
  HWY_ALIGN float b_tail[hn::MaxLanes(D())] = {};
  for (size_t j = i; j < n; ++j) {
    a_tail[j - i] = a[j];
    b_tail[j - i] = b[j];
  }
  hn::Store(f(hn::Load(d, a_tail), hn::Load(d, b_tail)), d, a_tail);
  for (size_t j = i; j < n; ++j) out[j] = a_tail[j - i];
}

HWY_NOINLINE void SwiGlu(const float* gate, const float* up, size_t n, float* out) {
  Zip(gate, up, n, out, [](V g, V u) HWY_ATTR {
    const D d;
    return hn::Mul(hn::Div(g, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(g)))), u);
  });
}

HWY_NOINLINE void Add(const float* a, const float* b, size_t n, float* out) {
  Zip(a, b, n, out, [](V x, V y) HWY_ATTR { return hn::Add(x, y); });
}

HWY_NOINLINE void AddScaled(float weight, const float* x, size_t n, float* y) {
  const V w = hn::Set(D(), weight);
  Zip(x, y, n, y, [w](V v, V sum) HWY_ATTR { return FusedMulAdd(D(), w, v, sum); });
}

HWY_NOINLINE void ExpArray(const float* x, size_t n, float* out) {
  Zip(x, x, n, out, [](V v, V) HWY_ATTR { return Exp(D(), v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(SwiGlu);
HWY_EXPORT(Add);
HWY_EXPORT(AddScaled);
HWY_EXPORT(ExpArray);

void SwiGlu(const float* gate, const float* up, size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(SwiGlu)(gate, up, n, out);
}

void Add(const float* a, const float* b, size_t n, float* out) { HWY_DYNAMIC_DISPATCH(Add)(a, b, n, out); }

void AddScaled(float weight, const float* x, size_t n, float* y) { HWY_DYNAMIC_DISPATCH(AddScaled)(weight, x, n, y); }

void Exp(const float* x, size_t n, float* out) { HWY_DYNAMIC_DISPATCH(ExpArray)(x, n, out); }

}  // namespace estream
#endif  // HWY_ONCE
