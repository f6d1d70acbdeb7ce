// SPDX-License-Identifier: Apache-2.0
// Register-blocked micro-kernel: up to kMaxRows rows by two vectors of columns, one accumulator an output.
//
// An FMA takes 4 cycles and two start a cycle, so 8 independent accumulators are the least that keeps the units busy.
// AVX2 has 16 registers: 6 rows x 2 vectors of accumulators, 2 of b and 1 of a make 15. AVX-512 and NEON have 32: 12
// rows x 2, 2 and 1 make 27. A step of k loads 2 + rows values for 2 * rows FMAs, which two loads a cycle sustain.
#include "kernels/matmul.h"

#include "base/macros.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: n is a multiple of 16 and two vectors of a panel are 32.
using F32 = hn::CappedTag<float, 16>;
using VF = hn::Vec<F32>;

constexpr uint32_t kMaxRows = 6;

// The operands of one micro-kernel call; strides in floats.
struct Block {
  const float* a;
  size_t a_stride;
  const float* b;
  size_t b_stride;
  size_t k;
  float* c;
  size_t c_stride;
  bool accumulate;
};

// Accumulators are named, not an array: g++ 12 keeps arrays of vectors in memory. Rows that kRows does not have vanish.
#define ES_EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)

#define ES_START(R)                                                                       \
  [[maybe_unused]] VF left##R = hn::Zero(d);                                              \
  [[maybe_unused]] VF right##R = hn::Zero(d);                                             \
  if constexpr (R < kRows && kColumns > 0) {                                              \
    if (m.accumulate) {                                                                   \
      left##R = hn::LoadU(d, m.c + R * m.c_stride);                                       \
      if constexpr (kColumns == 2) right##R = hn::LoadU(d, m.c + R * m.c_stride + lanes); \
    }                                                                                     \
  }

#define ES_STEP(R)                                                                \
  if constexpr (R < kRows) {                                                      \
    const VF x = hn::Set(d, a[R * a_stride + k]);                                 \
    left##R = FusedMulAdd(d, x, b_left, left##R);                                 \
    if constexpr (kColumns == 2) right##R = FusedMulAdd(d, x, b_right, right##R); \
  }

#define ES_FINISH(R)                                                                    \
  if constexpr (R < kRows) {                                                            \
    hn::StoreU(left##R, d, m.c + R * m.c_stride);                                       \
    if constexpr (kColumns == 2) hn::StoreU(right##R, d, m.c + R * m.c_stride + lanes); \
  }

// c[r, n] (+)= sum_k a[r, k] * b[k, n].   a [kRows, k], b [k, kColumns vectors], c [kRows, kColumns vectors].
template <uint32_t kRows, uint32_t kColumns>
HWY_NOINLINE void MicroKernel(const Block& m) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  ES_EACH_ROW(ES_START)
  const float* HWY_RESTRICT a = m.a;
  const float* HWY_RESTRICT b = m.b;
  const size_t a_stride = m.a_stride, b_stride = m.b_stride, depth = m.k;
  for (size_t k = 0; k < depth; ++k) {
    const VF b_left = hn::LoadU(d, b);
    [[maybe_unused]] VF b_right = b_left;
    if constexpr (kColumns == 2) b_right = hn::LoadU(d, b + lanes);
    b += b_stride;
    ES_EACH_ROW(ES_STEP)
  }
  ES_EACH_ROW(ES_FINISH)
}

#undef ES_EACH_ROW
#undef ES_START
#undef ES_STEP
#undef ES_FINISH

// Calls the micro-kernel for the `rows` <= kRows rows that are left.
template <uint32_t kColumns, uint32_t kRows = kMaxRows>
HWY_INLINE void RunRows(uint32_t rows, const Block& m) {
  if (rows == kRows) return MicroKernel<kRows, kColumns>(m);
  if constexpr (kRows > 1) RunRows<kColumns, kRows - 1>(rows, m);
}

// All rows for one strip of columns, in blocks as even as can be: 8 rows are 4 + 4, since 6 + 2 would leave the units
// waiting in the second.
template <uint32_t kColumns>
void RunStrip(uint32_t rows, Block m) {
  for (uint32_t blocks = (rows + kMaxRows - 1) / kMaxRows; blocks > 0; --blocks) {
    const uint32_t take = (rows + blocks - 1) / blocks;
    RunRows<kColumns>(take, m);
    m.a += take * m.a_stride;
    m.c += take * m.c_stride;
    rows -= take;
  }
}

}  // namespace

void MatMulTarget(const float* a, size_t a_stride, uint32_t rows, const float* b, size_t b_stride, size_t n, size_t k,
                  float* c, size_t c_stride, bool accumulate) {
  const size_t lanes = hn::Lanes(F32());
  size_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    RunStrip<2>(rows, Block{a, a_stride, b + j, b_stride, k, c + j, c_stride, accumulate});
  }
  if (j < n) RunStrip<1>(rows, Block{a, a_stride, b + j, b_stride, k, c + j, c_stride, accumulate});
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(MatMulTarget);

void MatMul(const float* a, size_t a_stride, uint32_t rows, const float* b, size_t b_stride, size_t n, size_t k,
            float* c, size_t c_stride, bool accumulate) {
  ES_DCHECK(n % 16 == 0);
  HWY_DYNAMIC_DISPATCH(MatMulTarget)(a, a_stride, rows, b, b_stride, n, k, c, c_stride, accumulate);
}

void MatMulPanel(const float* a, size_t a_stride, uint32_t rows, const float* b, size_t k, float* c, size_t c_stride,
                 bool accumulate) {
  MatMul(a, a_stride, rows, b, 32, 32, k, c, c_stride, accumulate);
}

}  // namespace estream
#endif  // HWY_ONCE
