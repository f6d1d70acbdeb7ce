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

// Eight lanes at most: sixteen take longer to reduce than they save (kernel_bench, "quantise").
using F32 = hn::CappedTag<float, 8>;
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

// Sixteen values: rounds x * inverse to q and returns the sum of (index % 4 < 2 ? q : q * 2^16), modulo 2^32.
HWY_INLINE int32_t QuantizeHalf(const float* x, float inverse, int8_t* q) {
  alignas(64) static constexpr int32_t kWeights[16] = {1, 1, 65536, 65536, 1, 1, 65536, 65536,
                                                       1, 1, 65536, 65536, 1, 1, 65536, 65536};
  const F32 d;
  const I32 di;
  // Adding 1.5 * 2^23 leaves no bits behind the point: the sum's rounding is to the nearest, ties to even, everywhere.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto scale = hn::Set(d, inverse);
  auto sum = hn::Zero(di);
  for (uint64_t i = 0; i < kBlock / 2; i += hn::Lanes(d)) {
    const auto scaled = hn::Mul(hn::LoadU(d, x + i), scale);
    const auto value = hn::Sub(hn::BitCast(di, hn::Add(scaled, magic)), hn::BitCast(di, magic));
    hn::StoreU(hn::DemoteTo(hn::Rebind<int8_t, F32>(), value), hn::Rebind<int8_t, F32>(), q + i);
    sum = hn::Add(sum, hn::Mul(value, hn::LoadU(di, kWeights + i)));
  }
  return hn::GetLane(hn::SumOfLanes(di, sum));
}

// The two sums in such a number: the low one borrows from the high one where it is negative.
struct PairSums {
  explicit PairSums(int32_t packed)
      : low(static_cast<int16_t>(packed & 0xFFFF)),
        high(static_cast<int16_t>((static_cast<uint32_t>(packed) - static_cast<uint32_t>(low)) >> 16)) {}
  PairSums(int l, int h) : low(l), high(h) {}
  int32_t Packed() const {
    return static_cast<int32_t>((static_cast<uint32_t>(low) & 0xFFFFu) | (static_cast<uint32_t>(high) << 16));
  }
  int low;
  int high;
};

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
  const float inverse = 127.0f / largest;
  const PairSums first(QuantizeHalf(x, inverse, q));
  const PairSums second(QuantizeHalf(x + kBlock / 2, inverse, q + kBlock / 2));
  const PairSums whole(first.low + second.low, first.high + second.high);
  const float scale = largest / 127.0f;
  *block = {.scale = scale,
            .scaled_sum = scale * static_cast<float>(whole.low + whole.high),
            .pair_sums = whole.Packed(),
            .first_pair_sums = first.Packed(),
            .second_pair_sums = second.Packed()};
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
