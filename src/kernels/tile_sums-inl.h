// SPDX-License-Identifier: Apache-2.0
// Integer sums of one tile of weights with some rows of activations: the arithmetic of a block of 32, in registers.
//
// A source (tile_q8-inl.h) gives the weights. A step is one line of 128 weight bytes, 4 elements of 32 rows, against 4
// activations of each row, broadcast; two vectors of a line share a broadcast, since loads are what limits a kernel
// next to the products.

#if defined(ESTREAM_KERNELS_TILE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESTREAM_KERNELS_TILE_SUMS_INL_H_
#undef ESTREAM_KERNELS_TILE_SUMS_INL_H_
#else
#define ESTREAM_KERNELS_TILE_SUMS_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/quantize.h"
#include "kernels/tile_q8-inl.h"

// Accumulators are named, not an array: g++ 12 keeps arrays of vectors in memory. Rows that kRows does not have vanish.
#undef ES_EACH_ROW
#define ES_EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

// The rows that pass over a tile together.
struct Rows {
  const int8_t* values;           // [kRows][32]
  const ActivationBlock* blocks;  // [kRows]
};

// Two accumulators of each row.
struct Sums {
  Sums() {}  // nothing: every accumulator that exists is started
#define ES_DECLARE(R) DotVec left##R, right##R;
  ES_EACH_ROW(ES_DECLARE)
#undef ES_DECLARE
};

// Two vectors of a tile.
template <class Source>
struct TilePair {
  typename Source::Tile left, right;
};

enum class Part { kAll, kFirstHalf, kSecondHalf };  // of the 32 activations of a block

template <Part kPart>
HWY_INLINE DotVec PairSums(const ActivationBlock& block) {
  const DotTag d;
  if constexpr (kPart == Part::kAll) return hn::Set(d, block.pair_sums);
  return hn::Set(d, kPart == Part::kFirstHalf ? block.first_pair_sums : block.second_pair_sums);
}

template <int kStep, DotUnit kUnit, uint32_t kRows>
HWY_INLINE void RunStep(VU left_bytes, VU right_bytes, const Rows& rows, Sums& sum) {
  const DotTag d;
  const DotVec left = hn::BitCast(d, left_bytes), right = hn::BitCast(d, right_bytes);
  const auto* a = reinterpret_cast<const int32_t*>(rows.values) + kStep;
#define ES_STEP(R)                                         \
  if constexpr (R < kRows) {                               \
    const DotVec x = hn::Set(d, a[8 * R]);                 \
    sum.left##R = DotStep<kUnit>(sum.left##R, left, x);    \
    sum.right##R = DotStep<kUnit>(sum.right##R, right, x); \
  }
  ES_EACH_ROW(ES_STEP)
#undef ES_STEP
}

// Two steps.
template <class Source, int kLine, Take kTake, uint32_t kRows>
HWY_INLINE void RunOctet(const TilePair<Source>& tile, const Rows& rows, Sums& sum) {
  const Octet left = Source::template Load<kLine, kTake>(tile.left);
  const Octet right = Source::template Load<kLine, kTake>(tile.right);
  RunStep<2 * kLine, Source::kUnit, kRows>(left.low, right.low, rows, sum);
  RunStep<2 * kLine + 1, Source::kUnit, kRows>(left.high, right.high, rows, sum);
}

// Accumulators started at -offset * sum(a), then stepped through the lines of a part.
template <class Source, Part kPart, Take kTake, uint32_t kRows>
HWY_INLINE Sums RunLines(const TilePair<Source>& tile, const Rows& rows, DotVec offset) {
  Sums sum;
#define ES_START(R) \
  if constexpr (R < kRows) sum.left##R = sum.right##R = DotStart(PairSums<kPart>(rows.blocks[R]), offset);
  ES_EACH_ROW(ES_START)
#undef ES_START
  if constexpr (kPart != Part::kSecondHalf) {
    RunOctet<Source, 0, kTake, kRows>(tile, rows, sum);
    RunOctet<Source, 1, kTake, kRows>(tile, rows, sum);
  }
  if constexpr (kPart != Part::kFirstHalf) {
    RunOctet<Source, 2, kTake, kRows>(tile, rows, sum);
    RunOctet<Source, 3, kTake, kRows>(tile, rows, sum);
  }
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

// sum((w - offset) * a) of one tile; `offset` as DotOffset makes it.
template <class Source, uint32_t kRows>
HWY_INLINE Sums TileSums(const TilePair<Source>& tile, const Rows& rows, DotVec offset) {
  const DotTag d;
  if constexpr (Source::kShape == TileShape::kWhole) {
    Sums sum = RunLines<Source, Part::kAll, Take::kBytes, kRows>(tile, rows, offset);
    Finish<kRows>(sum);
    return sum;
  } else if constexpr (Source::kShape == TileShape::kHalves) {
    Sums sum = RunLines<Source, Part::kFirstHalf, Take::kBytes, kRows>(tile, rows, offset);
    const Sums second = RunLines<Source, Part::kSecondHalf, Take::kBytes, kRows>(tile, rows, offset);
    FinishTwo<kRows>(sum, Source::template Factor<0>(tile.left), Source::template Factor<0>(tile.right), second,
                     Source::template Factor<1>(tile.left), Source::template Factor<1>(tile.right));
    return sum;
  } else {
    Sums sum = RunLines<Source, Part::kAll, Take::kHighNibbles, kRows>(tile, rows, offset);
    const Sums second = RunLines<Source, Part::kAll, Take::kLowNibbles, kRows>(tile, rows, hn::Zero(d));
    const DotVec high = DotFactor(hn::Set(d, 16)), low = DotFactor(hn::Set(d, 1));
    FinishTwo<kRows>(sum, high, high, second, low, low);
    return sum;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
