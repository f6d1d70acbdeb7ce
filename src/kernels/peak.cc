// SPDX-License-Identifier: Apache-2.0
// Enough independent accumulators to hide every latency: two instructions of 4 cycles a cycle need 8.
#include "kernels/peak.h"

#define HWY_WANT_AVX3_DL
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/int8_dot-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using I32 = hn::RebindToSigned<F32>;
using VF = hn::Vec<F32>;
using VI = hn::Vec<I32>;

#define ES_TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

HWY_NOINLINE uint64_t FmaLoop(uint64_t rounds) {
  const F32 d;
  const VF x = hn::Set(d, 0.5f), y = hn::Set(d, 1.0f);
#define ES_DECLARE(I) VF sum##I = hn::Set(d, static_cast<float>(I));
#define ES_STEP(I) sum##I = FusedMulAdd(d, sum##I, x, y);
#define ES_ADD(I) total = hn::Add(total, sum##I);
  ES_TWELVE(ES_DECLARE)
  for (uint64_t i = 0; i < rounds; ++i) {
    ES_TWELVE(ES_STEP)
  }
  VF total = hn::Zero(d);
  ES_TWELVE(ES_ADD)
#undef ES_DECLARE
#undef ES_STEP
#undef ES_ADD
  [[maybe_unused]] volatile auto keep = hn::GetLane(total);  // else the loop has no effect and vanishes
  return rounds * 12 * hn::Lanes(d);
}

#if ES_HAS_PAIR_DOT

// Eight steps of two vectors of weights against four of activations, all read anew, as a kernel does for one tile.
template <class Dot>
HWY_INLINE uint64_t Int8Loop(uint64_t rounds, const Dot& dot) {
  const I32 d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN int32_t weights[16 * 2 * 16];
  HWY_ALIGN int32_t activations[16 * 4];
  for (uint32_t i = 0; i < 16 * 2 * 16; ++i) weights[i] = static_cast<int32_t>((i * 0x01030507u) & 0x0F0F0F0Fu);
  for (uint32_t i = 0; i < 16 * 4; ++i) activations[i] = static_cast<int32_t>(i * 0x01030507u);
  VI sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  VI sum4 = hn::Zero(d), sum5 = hn::Zero(d), sum6 = hn::Zero(d), sum7 = hn::Zero(d);
  for (uint64_t i = 0; i < rounds; ++i) {
    // Where a round starts moves, so that its products cannot be computed once and for all.
    const int32_t* w = weights + i % 8 * 2 * lanes;
    const int32_t* a = activations + i % 8 * 4;
    HWY_UNROLL(8)
    for (int step = 0; step < 8; ++step, w += 2 * lanes, a += 4) {
      const VI left = hn::Load(d, w), right = hn::Load(d, w + lanes);
      const VI a0 = hn::Set(d, a[0]), a1 = hn::Set(d, a[1]), a2 = hn::Set(d, a[2]), a3 = hn::Set(d, a[3]);
      sum0 = dot(sum0, left, a0), sum1 = dot(sum1, right, a0);
      sum2 = dot(sum2, left, a1), sum3 = dot(sum3, right, a1);
      sum4 = dot(sum4, left, a2), sum5 = dot(sum5, right, a2);
      sum6 = dot(sum6, left, a3), sum7 = dot(sum7, right, a3);
    }
  }
  const VI low = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  const VI high = hn::Add(hn::Add(sum4, sum5), hn::Add(sum6, sum7));
  [[maybe_unused]] volatile auto keep = hn::GetLane(hn::Add(low, high));  // else the loop has no effect and vanishes
  return rounds * 8 * 8 * 4 * lanes;
}

HWY_NOINLINE uint64_t Int8PairLoop(uint64_t rounds) {
  return Int8Loop(rounds, [](VI sum, VI w, VI a) HWY_ATTR { return PairDot(sum, w, a); });
}

#endif  // ES_HAS_PAIR_DOT

#if ES_HAS_QUAD_DOT
HWY_NOINLINE uint64_t Int8QuadLoop(uint64_t rounds) {
  return Int8Loop(rounds, [](VI sum, VI w, VI a) HWY_ATTR { return QuadDot(sum, w, a); });
}
#endif

#undef ES_TWELVE

}  // namespace

uint64_t RunPeakLoopTarget(PeakMix mix, uint64_t rounds) {
  switch (mix) {
    case PeakMix::kFma:
      return FmaLoop(rounds);
    case PeakMix::kInt8Pair:
#if ES_HAS_PAIR_DOT
      return Int8PairLoop(rounds);
#else
      return 0;
#endif
    case PeakMix::kInt8Quad:
#if ES_HAS_QUAD_DOT
      return Int8QuadLoop(rounds);
#else
      return 0;
#endif
  }
  return 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(RunPeakLoopTarget);

uint64_t RunPeakLoop(PeakMix mix, uint64_t rounds) { return HWY_DYNAMIC_DISPATCH(RunPeakLoopTarget)(mix, rounds); }

}  // namespace estream
#endif  // HWY_ONCE
