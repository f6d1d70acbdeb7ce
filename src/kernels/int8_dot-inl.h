// SPDX-License-Identifier: Apache-2.0
// Integer dot products of unsigned weight bytes with signed activation bytes; the one place with raw intrinsics.
//
// Vectors are 32-bit lanes of four bytes: a lane is a weight row. Each target has one form of accumulator:
//   quad      32-bit sums of four products                (AVX-512 VNNI, one instruction a step)
//   pair      two 16-bit sums of two products             (AVX2, AVX-512: maddubs and an addition)
//   signed    32-bit sums of four products of signed bytes (NEON: one instruction a step with ARMv8.2's dot product,
//             which the CPU has or not, else four)
//   portable  32-bit sums, byte by byte                   (EMU128, SCALAR)
// A kernel starts an accumulator at -offset * sum(a), steps through the lines of a block and finishes to 32-bit sums of
// (w - offset) * a. In the pair form sums wrap around modulo 2^16 on the way, which is harmless when the finished value
// fits; a product of two must fit at once, so weight bytes may be at most 127 there. In the signed form bytes up to 127
// are what they are, and a format with more is centred beforehand.

#if defined(ESTREAM_KERNELS_INT8_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESTREAM_KERNELS_INT8_DOT_INL_H_
#undef ESTREAM_KERNELS_INT8_DOT_INL_H_
#else
#define ESTREAM_KERNELS_INT8_DOT_INL_H_
#endif

#include "hwy/highway.h"

#undef ES_HAS_PAIR_DOT
#undef ES_HAS_QUAD_DOT
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define ES_HAS_PAIR_DOT 1
#else
#define ES_HAS_PAIR_DOT 0
#endif
#if HWY_TARGET == HWY_AVX3_DL
#define ES_HAS_QUAD_DOT 1
#else
#define ES_HAS_QUAD_DOT 0
#endif

#if ES_HAS_QUAD_DOT
// Highway 1.0.3 takes this target when the CPU has AVX-512 VNNI, but names the compiler the 256-bit AVX-VNNI only,
// which such a CPU need not have. What follows is compiled for the former too; nothing here may leave integer dot
// products to the auto-vectoriser, which could choose the latter.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR \
  HWY_TARGET_STR_AVX3  \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512bitalg,avx512vpopcntdq,avx512vnni"
#endif

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

using DotTag = hwy::HWY_NAMESPACE::CappedTag<int32_t, 16>;
using DotVec = hwy::HWY_NAMESPACE::Vec<DotTag>;

#if ES_HAS_PAIR_DOT

// The empty asm keeps g++ from reordering a chain of additions into a tree, for which it then runs out of registers.
#if HWY_TARGET == HWY_AVX2
HWY_INLINE DotVec PairDot(DotVec acc, DotVec w, DotVec a) {
  __m256i sum = _mm256_add_epi16(acc.raw, _mm256_maddubs_epi16(w.raw, a.raw));
  asm("" : "+x"(sum));
  return DotVec{sum};
}
HWY_INLINE DotVec MulPairs16(DotVec x, DotVec y) { return DotVec{_mm256_madd_epi16(x.raw, y.raw)}; }
HWY_INLINE DotVec Mul16(DotVec x, DotVec y) { return DotVec{_mm256_mullo_epi16(x.raw, y.raw)}; }
#else
HWY_INLINE DotVec PairDot(DotVec acc, DotVec w, DotVec a) {
  __m512i sum = _mm512_add_epi16(acc.raw, _mm512_maddubs_epi16(w.raw, a.raw));
  asm("" : "+v"(sum));
  return DotVec{sum};
}
HWY_INLINE DotVec MulPairs16(DotVec x, DotVec y) { return DotVec{_mm512_madd_epi16(x.raw, y.raw)}; }
HWY_INLINE DotVec Mul16(DotVec x, DotVec y) { return DotVec{_mm512_mullo_epi16(x.raw, y.raw)}; }
#endif

// v in both 16-bit halves of every lane.
HWY_INLINE DotVec BothHalves(int v) {
  return hwy::HWY_NAMESPACE::Set(DotTag(), static_cast<int32_t>((v & 0xFFFF) * 0x10001u));
}

#endif  // ES_HAS_PAIR_DOT

#if ES_HAS_QUAD_DOT
HWY_INLINE DotVec QuadDot(DotVec acc, DotVec w, DotVec a) { return DotVec{_mm512_dpbusd_epi32(acc.raw, w.raw, a.raw)}; }
#endif

// --- The form of this target.
//
//   kDotTakesFullBytes       whether weight bytes may use all 8 bits
//   kDotTakesSignedBytes     whether these are signed then
//   DotOffset(offset)        -offset as DotStart wants it
//   DotStart(sums, offset)   an accumulator of -offset * sum(a); `sums`: two 16-bit sums a lane (ActivationBlock)
//   DotStep<kUnit>(acc, w, a)  adds the products of one line; only the signed form has another unit than kBase
//   DotFinish(acc)           the 32-bit sums
//   DotFactor(factor)        a small integer a lane as DotFinishTimes wants it
//   DotFinishTimes(acc, f)   the 32-bit sums times that

enum class DotUnit { kBase, kDotProduct };

#if ES_HAS_QUAD_DOT

constexpr bool kDotTakesFullBytes = true;
constexpr bool kDotTakesSignedBytes = false;
HWY_INLINE DotVec DotOffset(int offset) { return BothHalves(-offset); }
HWY_INLINE DotVec DotStart(DotVec sums, DotVec offset) { return MulPairs16(sums, offset); }
template <DotUnit>
HWY_INLINE DotVec DotStep(DotVec acc, DotVec w, DotVec a) {
  return QuadDot(acc, w, a);
}
HWY_INLINE DotVec DotFinish(DotVec acc) { return acc; }
HWY_INLINE DotVec DotFactor(DotVec factor) { return factor; }
HWY_INLINE DotVec DotFinishTimes(DotVec acc, DotVec factor) { return hwy::HWY_NAMESPACE::Mul(acc, factor); }

#elif ES_HAS_PAIR_DOT

constexpr bool kDotTakesFullBytes = false;
constexpr bool kDotTakesSignedBytes = false;
HWY_INLINE DotVec DotOffset(int offset) { return BothHalves(-offset); }
HWY_INLINE DotVec DotStart(DotVec sums, DotVec offset) { return Mul16(sums, offset); }
template <DotUnit>
HWY_INLINE DotVec DotStep(DotVec acc, DotVec w, DotVec a) {
  return PairDot(acc, w, a);
}
HWY_INLINE DotVec DotFinish(DotVec acc) { return MulPairs16(acc, BothHalves(1)); }
HWY_INLINE DotVec DotFactor(DotVec factor) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::Or(hn::And(factor, hn::Set(DotTag(), 0xFFFF)), hn::ShiftLeft<16>(factor));
}
HWY_INLINE DotVec DotFinishTimes(DotVec acc, DotVec factor) { return MulPairs16(acc, factor); }

#else

#if HWY_TARGET == HWY_NEON

// Named to the assembler, not to the compiler, which would use the instruction wherever it pleases. Without it two
// products of at most 128 * 127 each meet in 16 bits before they are widened.
template <DotUnit kUnit>
HWY_INLINE DotVec DotStep(DotVec acc, DotVec w, DotVec a) {
  if constexpr (kUnit == DotUnit::kDotProduct) {
    asm(".arch armv8.2-a+crypto+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(acc.raw) : "w"(w.raw), "w"(a.raw));
    return acc;
  }
  const int8x16_t x = vreinterpretq_s8_s32(w.raw), y = vreinterpretq_s8_s32(a.raw);
  const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y)), high = vmull_high_s8(x, y);
  return DotVec(vpadalq_s16(acc.raw, vpaddq_s16(low, high)));
}

#else

// Product of byte kByte of every lane, w's as unsigned and a's as signed.
template <int kByte>
HWY_INLINE DotVec ByteProduct(DotVec w, DotVec a) {
  namespace hn = hwy::HWY_NAMESPACE;
  const DotVec unsigned_byte = hn::And(hn::ShiftRight<8 * kByte>(w), hn::Set(DotTag(), 0xFF));
  const DotVec signed_byte = hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * kByte>(a));
  return hn::Mul(unsigned_byte, signed_byte);
}

// Not inlined in the emulation, whose vectors are loops: a kernel would become too long to compile with sanitizers.
#if HWY_TARGET == HWY_EMU128
#define ES_DOT_STEP inline HWY_NOINLINE
#else
#define ES_DOT_STEP HWY_INLINE
#endif

template <DotUnit>
ES_DOT_STEP DotVec DotStep(DotVec acc, DotVec w, DotVec a) {
  namespace hn = hwy::HWY_NAMESPACE;
  const DotVec low = hn::Add(ByteProduct<0>(w, a), ByteProduct<1>(w, a));
  return hn::Add(acc, hn::Add(low, hn::Add(ByteProduct<2>(w, a), ByteProduct<3>(w, a))));
}

#undef ES_DOT_STEP
#endif  // HWY_NEON

constexpr bool kDotTakesFullBytes = true;
constexpr bool kDotTakesSignedBytes = HWY_TARGET == HWY_NEON;
HWY_INLINE DotVec DotOffset(int offset) { return hwy::HWY_NAMESPACE::Set(DotTag(), -offset); }
HWY_INLINE DotVec DotStart(DotVec sums, DotVec offset) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::Mul(hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(sums)), hn::ShiftRight<16>(sums)), offset);
}
HWY_INLINE DotVec DotFinish(DotVec acc) { return acc; }
HWY_INLINE DotVec DotFactor(DotVec factor) { return factor; }
HWY_INLINE DotVec DotFinishTimes(DotVec acc, DotVec factor) { return hwy::HWY_NAMESPACE::Mul(acc, factor); }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
