// SPDX-License-Identifier: Apache-2.0
// The one place with raw intrinsics: products of unsigned weight bytes and signed activation bytes, summed in each
// lane.
//
// Vectors are 32-bit lanes of four bytes. ES_HAS_PAIR_DOT: u8 x i8 to two 16-bit sums of two products (AVX2, AVX-512).
// ES_HAS_QUAD_DOT: u8 x i8 to one 32-bit sum of four products, added to an accumulator (AVX-512 VNNI). Both wrap
// around; the pair product itself must fit 16 bits, else it saturates.

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

#if ES_HAS_PAIR_DOT

// acc.i16[2l + h] += w.u8[4l + 2h] * a.i8[4l + 2h] + w.u8[4l + 2h + 1] * a.i8[4l + 2h + 1].
//
// The empty asm keeps g++ from reordering a chain of additions into a tree, for which it then runs out of registers.
#if HWY_TARGET == HWY_AVX2
using DotVec = hwy::HWY_NAMESPACE::Vec256<int32_t>;
HWY_INLINE DotVec PairDot(DotVec acc, DotVec w, DotVec a) {
  __m256i sum = _mm256_add_epi16(acc.raw, _mm256_maddubs_epi16(w.raw, a.raw));
  asm("" : "+x"(sum));
  return DotVec{sum};
}
#else
using DotVec = hwy::HWY_NAMESPACE::Vec512<int32_t>;
HWY_INLINE DotVec PairDot(DotVec acc, DotVec w, DotVec a) {
  __m512i sum = _mm512_add_epi16(acc.raw, _mm512_maddubs_epi16(w.raw, a.raw));
  asm("" : "+v"(sum));
  return DotVec{sum};
}
#endif

#endif  // ES_HAS_PAIR_DOT

#if ES_HAS_QUAD_DOT

// acc.i32[l] += sum over i < 4 of w.u8[4l + i] * a.i8[4l + i].
HWY_INLINE DotVec QuadDot(DotVec acc, DotVec w, DotVec a) { return DotVec{_mm512_dpbusd_epi32(acc.raw, w.raw, a.raw)}; }

#endif  // ES_HAS_QUAD_DOT

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
