// SPDX-License-Identifier: Apache-2.0
// Tile by tile: a tile of weights becomes bytes once, then all rows pass over it while it is in the L1 cache.
//
// Sums over tiles wait in a scratch of 96 rows x 32 (12 KiB), which with a tile (2.5 KiB) and the rows' blocks (4.5
// KiB) stays in the L1 cache, wherever c lies. A step is one line of 128 weight bytes, 4 elements of 32 rows, against 4
// activations of each row, broadcast.
#include "kernels/matmul_q8.h"

#include <algorithm>
#include <cstring>

#include "base/macros.h"
#include "format/tile.h"

#define HWY_WANT_AVX3_DL
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_q8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/int8_dot-inl.h"
#include "kernels/simd-inl.h"
#include "kernels/tile_bytes-inl.h"
#include "kernels/tile_q8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {
namespace {

constexpr uint32_t kChunkRows = 96;

// Most rows of one micro-kernel, a power of two: two accumulators each, beside 2 vectors of weights, 1 of activations
// and, in the pair form, 1 of products. AVX-512 has 32 registers, AVX2 has 16; the portable form needs many more than
// these.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr uint32_t kMaxRows = 8;
#elif HWY_TARGET == HWY_AVX2
constexpr uint32_t kMaxRows = 4;
#else
constexpr uint32_t kMaxRows = 2;
#endif

// The rows of one block, as they pass over a tile.
struct Rows {
  const int8_t* values;           // [kRows][32]
  const ActivationBlock* blocks;  // [kRows]
  float* sums;                    // [kRows][32], continued
};

// Accumulators are named, not an array: g++ 12 keeps arrays of vectors in memory. Rows that kRows does not have vanish.
#define ES_EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

// Two accumulators of each row.
struct Sums {
#define ES_DECLARE(R) DotVec left##R, right##R;
  ES_EACH_ROW(ES_DECLARE)
#undef ES_DECLARE
};

enum class Part { kAll, kFirstHalf, kSecondHalf };  // of the 32 activations of a block

template <Part kPart>
HWY_INLINE DotVec PairSums(const ActivationBlock& block) {
  const DotTag d;
  if constexpr (kPart == Part::kAll) return hn::Set(d, block.pair_sums);
  return hn::Set(d, kPart == Part::kFirstHalf ? block.first_pair_sums : block.second_pair_sums);
}

// Accumulators started at -offset * sum(a), then stepped through the lines of a part.
template <Part kPart, uint32_t kRows>
HWY_INLINE Sums RunLines(const uint8_t* lines, const Rows& rows, DotVec offset) {
  constexpr uint32_t kSteps = kPart == Part::kAll ? 8 : 4;
  const DotTag d;
  const size_t lanes = hn::Lanes(d);
  const auto* a = reinterpret_cast<const int32_t*>(rows.values) + (kPart == Part::kSecondHalf ? kSteps : 0);
  Sums sum;
#define ES_START(R) \
  if constexpr (R < kRows) sum.left##R = sum.right##R = DotStart(PairSums<kPart>(rows.blocks[R]), offset);
#define ES_STEP(R)                                  \
  if constexpr (R < kRows) {                        \
    const DotVec x = hn::Set(d, a[8 * R + step]);   \
    sum.left##R = DotStep(sum.left##R, left, x);    \
    sum.right##R = DotStep(sum.right##R, right, x); \
  }
  ES_EACH_ROW(ES_START)
  HWY_UNROLL(8)
  for (uint32_t step = 0; step < kSteps; ++step) {
    const auto* line = reinterpret_cast<const int32_t*>(lines + step * kLineBytes);
    const DotVec left = hn::Load(d, line), right = hn::Load(d, line + lanes);
    ES_EACH_ROW(ES_STEP)
  }
#undef ES_START
#undef ES_STEP
  return sum;
}

template <uint32_t kRows>
HWY_INLINE void Finish(Sums& sum) {
#define ES_FINISH(R)                        \
  if constexpr (R < kRows) {                \
    sum.left##R = DotFinish(sum.left##R);   \
    sum.right##R = DotFinish(sum.right##R); \
  }
  ES_EACH_ROW(ES_FINISH)
#undef ES_FINISH
}

// first * (left, right) + second * (second_left, second_right), finished.
template <uint32_t kRows>
HWY_INLINE void FinishTwo(Sums& first, DotVec left, DotVec right, const Sums& second, DotVec second_left,
                          DotVec second_right) {
#define ES_FINISH(R)                                                                                                \
  if constexpr (R < kRows) {                                                                                        \
    first.left##R = hn::Add(DotFinishTimes(first.left##R, left), DotFinishTimes(second.left##R, second_left));      \
    first.right##R = hn::Add(DotFinishTimes(first.right##R, right), DotFinishTimes(second.right##R, second_right)); \
  }
  ES_EACH_ROW(ES_FINISH)
#undef ES_FINISH
}

// The integer sums of one tile, for two vectors of its rows from `column` on.
template <TileShape kShape, uint32_t kRows>
HWY_INLINE Sums TileSums(const TileQ8& tile, size_t column, const Rows& rows, DotVec offset) {
  const DotTag d;
  const size_t lanes = hn::Lanes(d);
  const uint8_t* lines = tile.lines + 4 * column;
  if constexpr (kShape == TileShape::kWhole) {
    Sums sum = RunLines<Part::kAll, kRows>(lines, rows, offset);
    Finish<kRows>(sum);
    return sum;
  } else if constexpr (kShape == TileShape::kHalves) {
    Sums sum = RunLines<Part::kFirstHalf, kRows>(lines, rows, offset);
    const Sums second = RunLines<Part::kSecondHalf, kRows>(lines + 4 * kLineBytes, rows, offset);
    const int32_t* f = tile.factors[0] + column;
    const int32_t* g = tile.factors[1] + column;
    FinishTwo<kRows>(sum, hn::Load(d, f), hn::Load(d, f + lanes), second, hn::Load(d, g), hn::Load(d, g + lanes));
    return sum;
  } else {
    Sums sum = RunLines<Part::kAll, kRows>(lines, rows, offset);
    const Sums second = RunLines<Part::kAll, kRows>(lines + 8 * kLineBytes, rows, hn::Zero(d));
    const DotVec high = DotFactor(hn::Set(d, 16)), low = DotFactor(hn::Set(d, 1));
    FinishTwo<kRows>(sum, high, high, second, low, low);
    return sum;
  }
}

// c = fma(fl(weight scale * scale), sum, c), and with a min c = fma(min, scaled sum, c).
template <bool kHasMin, uint32_t kRows>
HWY_INLINE void AddScaled(const TileQ8& tile, size_t column, const Rows& rows, const Sums& sum) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  const VF scale_left = hn::Load(d, tile.scale + column), scale_right = hn::Load(d, tile.scale + column + lanes);
#define ES_ADD(R)                                                                                                   \
  if constexpr (R < kRows) {                                                                                        \
    float* c = rows.sums + R * kTileRows + column;                                                                  \
    const VF scale = hn::Set(d, rows.blocks[R].scale);                                                              \
    VF left = FusedMulAdd(d, hn::Mul(scale_left, scale), hn::ConvertTo(d, sum.left##R), hn::Load(d, c));            \
    VF right = FusedMulAdd(d, hn::Mul(scale_right, scale), hn::ConvertTo(d, sum.right##R), hn::Load(d, c + lanes)); \
    if constexpr (kHasMin) {                                                                                        \
      const VF scaled_sum = hn::Set(d, rows.blocks[R].scaled_sum);                                                  \
      left = FusedMulAdd(d, hn::Load(d, tile.min + column), scaled_sum, left);                                      \
      right = FusedMulAdd(d, hn::Load(d, tile.min + column + lanes), scaled_sum, right);                            \
    }                                                                                                               \
    hn::Store(left, d, c);                                                                                          \
    hn::Store(right, d, c + lanes);                                                                                 \
  }
  ES_EACH_ROW(ES_ADD)
#undef ES_ADD
}

// Adds one tile to the sums of `count` blocks of kRows rows. Six arguments travel in registers; a struct would wait for
// its own stores.
template <TileShape kShape, bool kHasMin, uint32_t kRows>
HWY_NOINLINE void MicroKernel(const TileQ8& tile, int offset, const int8_t* values, const ActivationBlock* blocks,
                              float* sums, uint32_t count) {
  const DotVec minus_offset = DotOffset(offset);
  for (; count > 0; --count) {
    const Rows rows = {values, blocks, sums};
    for (size_t column = 0; column < kTileRows; column += 2 * hn::Lanes(F32())) {
      AddScaled<kHasMin, kRows>(tile, column, rows, TileSums<kShape, kRows>(tile, column, rows, minus_offset));
    }
    values += kRows * kTileElements;
    blocks += kRows;
    sums += kRows * kTileRows;
  }
}

#undef ES_EACH_ROW

// Adds one tile to the sums of all rows: blocks of kRows, then of half as many, down to one.
template <class Format, uint32_t kRows = kMaxRows>
HWY_INLINE void RunRows(const TileQ8& tile, const int8_t* values, const ActivationBlock* blocks, float* sums,
                        uint32_t rows) {
  const uint32_t count = rows / kRows, done = count * kRows;
  if (count > 0) {
    MicroKernel<Format::kShape, Format::kHasMin, kRows>(tile, Format::kOffset, values, blocks, sums, count);
  }
  if constexpr (kRows > 1) {
    RunRows<Format, kRows / 2>(tile, values + done * kTileElements, blocks + done, sums + done * kTileRows,
                               rows - done);
  }
}

// Up to kChunkRows rows against a whole panel.
template <class Format>
void RunChunk(const PanelReader& panel, const QuantizedRows& a, uint32_t first_row, uint32_t rows, float* sums) {
  TileQ8 tile;
  for (uint64_t t = 0; t < a.cols / kTileElements; ++t) {
    PrepareTile<Format>(panel, t, tile);
    const uint64_t at = t * a.rows + first_row;
    RunRows<Format>(tile, a.values + at * kTileElements, a.blocks + at, sums, rows);
  }
}

template <class Format>
void RunPanel(const PanelReader& panel, const QuantizedRows& a, uint32_t first_row, uint32_t rows, float* c,
              size_t c_stride) {
  alignas(64) float sums[kChunkRows * kTileRows];
  while (rows > 0) {
    const uint32_t take = std::min(rows, kChunkRows);
    std::fill_n(sums, take * kTileRows, 0.0f);
    RunChunk<Format>(panel, a, first_row, take, sums);
    for (uint32_t r = 0; r < take; ++r) std::memcpy(c + r * c_stride, sums + r * kTileRows, sizeof(float) * kTileRows);
    c += take * c_stride;
    first_row += take;
    rows -= take;
  }
}

}  // namespace

void MatMulPanelQ8Target(WeightFormat format, const std::byte* panel, const QuantizedRows& a, uint32_t first_row,
                         uint32_t rows, float* c, size_t c_stride) {
  const PanelReader reader(format, panel, a.cols);
  switch (format) {
    case WeightFormat::kQ4_0:
      return RunPanel<Q8OfQ4_0>(reader, a, first_row, rows, c, c_stride);
    case WeightFormat::kQ4_1:
      return RunPanel<Q8OfQ4_1>(reader, a, first_row, rows, c, c_stride);
    case WeightFormat::kQ5_0:
      return RunPanel<Q8OfQ5_0>(reader, a, first_row, rows, c, c_stride);
    case WeightFormat::kQ5_1:
      return RunPanel<Q8OfQ5_1>(reader, a, first_row, rows, c, c_stride);
    case WeightFormat::kQ8_0:
      return RunPanel<Q8OfQ8_0>(reader, a, first_row, rows, c, c_stride);
    case WeightFormat::kQ4_K:
      return RunPanel<Q8OfQ4_K>(reader, a, first_row, rows, c, c_stride);
    case WeightFormat::kQ5_K:
      return RunPanel<Q8OfQ5_K>(reader, a, first_row, rows, c, c_stride);
    case WeightFormat::kQ6_K:
      return RunPanel<Q8OfQ6_K>(reader, a, first_row, rows, c, c_stride);
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return;  // excluded by the precondition
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(MatMulPanelQ8Target);

bool HasQ8(WeightFormat format) {
  return format != WeightFormat::kF32 && format != WeightFormat::kF16 && format != WeightFormat::kBF16;
}

void MatMulPanelQ8(WeightFormat format, const std::byte* panel, const QuantizedRows& a, uint32_t first_row,
                   uint32_t rows, float* c, size_t c_stride) {
  ES_DCHECK(HasQ8(format) && CanTile(format, a.cols) && first_row + rows <= a.rows);
  HWY_DYNAMIC_DISPATCH(MatMulPanelQ8Target)(format, panel, a, first_row, rows, c, c_stride);
}

}  // namespace estream
#endif  // HWY_ONCE
