// SPDX-License-Identifier: Apache-2.0
// One block at a time: largest magnitude, scale, rounding, sums.
#include "kernels/quantize.h"

#include <bit>
#include <cstring>
#include <limits>

#include "base/macros.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;

constexpr uint64_t kBlock = 32;

// The bits of the largest |x|. As unsigned integers they are ordered like magnitudes, NaN above all: no NaN is lost,
// and the order of comparison does not matter.
HWY_INLINE uint32_t LargestMagnitude(const float* x) {
  const U32 d;
  auto largest = hn::Zero(d);
  for (uint64_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(d, hn::LoadU(F32(), x + i));
    largest = hn::Max(largest, hn::And(bits, hn::Set(d, 0x7FFFFFFFu)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// q = round(x * inverse), all 32.
HWY_INLINE void RoundBlock(const float* x, float inverse, int8_t* q) {
  const F32 d;
  const I32 di;
  // Adding 1.5 * 2^23 leaves no bits behind the point: the sum's rounding is to the nearest, ties to even, everywhere.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto scale = hn::Set(d, inverse);
  for (uint64_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    const auto scaled = hn::Mul(hn::LoadU(d, x + i), scale);
    const auto value = hn::Sub(hn::BitCast(di, hn::Add(scaled, magic)), hn::BitCast(di, magic));
    hn::StoreU(hn::DemoteTo(hn::Rebind<int8_t, F32>(), value), hn::Rebind<int8_t, F32>(), q + i);
  }
}

// Two 16-bit sums, as ActivationBlock has them: of q[i] with i % 4 < 2 and of the others, for 16 values each.
struct PairSums {
  int32_t first;
  int32_t second;
  int32_t whole;
};

HWY_INLINE PairSums SumPairs(const int8_t* q) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  const auto pack = [](int low, int high) {
    return static_cast<int32_t>((static_cast<uint32_t>(low) & 0xFFFFu) | static_cast<uint32_t>(high) << 16);
  };
  int low[2] = {}, high[2] = {};
  for (uint64_t i = 0; i < kBlock; ++i) (i % 4 < 2 ? low : high)[i / 16] += q[i];
  return {pack(low[0], high[0]), pack(low[1], high[1]), pack(low[0] + low[1], high[0] + high[1])};
#else
  const hn::FixedTag<int16_t, 8> d;
  const hn::FixedTag<int32_t, 4> d32;
  // A lane of 16 bits holds two values. Its sum is the low or the high sum of its pair of lanes already.
  const auto sums = [&](const int8_t* from) {
    const auto two = hn::BitCast(d, hn::LoadU(hn::FixedTag<int8_t, 16>(), from));
    auto sum = hn::Add(hn::ShiftRight<8>(hn::ShiftLeft<8>(two)), hn::ShiftRight<8>(two));
    sum = hn::Add(sum, hn::BitCast(d, hn::Shuffle1032(hn::BitCast(d32, sum))));
    return hn::Add(sum, hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, sum))));
  };
  const auto first = sums(q), second = sums(q + kBlock / 2);
  return {hn::GetLane(hn::BitCast(d32, first)), hn::GetLane(hn::BitCast(d32, second)),
          hn::GetLane(hn::BitCast(d32, hn::Add(first, second)))};
#endif
}

HWY_INLINE void QuantizeBlock(const float* x, int8_t* q, ActivationBlock* block) {
  const float largest = std::bit_cast<float>(LargestMagnitude(x));
  if (!(largest <= std::numeric_limits<float>::max())) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    std::memset(q, 0, kBlock);
    *block = {.scale = kNan, .scaled_sum = kNan, .pair_sums = 0, .first_pair_sums = 0, .second_pair_sums = 0};
    return;
  }
  if (largest < 0x1p-100f) {  // 127 / largest could overflow
    std::memset(q, 0, kBlock);
    *block = {};
    return;
  }
  RoundBlock(x, 127.0f / largest, q);
  const PairSums sums = SumPairs(q);
  const float scale = largest / 127.0f;
  const int sum = static_cast<int16_t>(sums.whole) + (sums.whole >> 16);
  *block = {.scale = scale,
            .scaled_sum = scale * static_cast<float>(sum),
            .pair_sums = sums.whole,
            .first_pair_sums = sums.first,
            .second_pair_sums = sums.second};
}

}  // namespace

void QuantizeRowTarget(const float* x, uint32_t row, const QuantizedRows& out) {
  for (uint64_t b = 0; b < out.cols / kBlock; ++b) {
    const uint64_t at = b * out.rows + row;
    QuantizeBlock(x + b * kBlock, out.values + at * kBlock, out.blocks + at);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(QuantizeRowTarget);

void QuantizeRow(const float* x, uint32_t row, const QuantizedRows& out) {
  ES_DCHECK(row < out.rows && out.cols % 32 == 0);
  HWY_DYNAMIC_DISPATCH(QuantizeRowTarget)(x, row, out);
}

}  // namespace estream
#endif  // HWY_ONCE
