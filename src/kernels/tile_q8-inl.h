// SPDX-License-Identifier: Apache-2.0
// One tile of a panel made ready for integer dot products: lines of unsigned bytes, factors, scales and mins of its
// rows.
//
// A format has an offset that is taken from the bytes, so that they are centred where 16-bit sums need it:
//   Q4_0 8;  Q4_1, Q4_K 0;  Q5_* 16;  Q6_K 32;  Q8_0 128, or where bytes may use 7 bits only, split in 16 * high + low
// With |a| <= 127 the sums over a tile then fit 16 bits: at most 16 * 15 * 127 = 30,480 without an offset (Q4_1, Q4_K),
// 16 * 16 * 127 = 32,512 with 16 or, over half a tile, with 32. A min is what the format adds to (q - offset) * scale.

#if defined(ESTREAM_KERNELS_TILE_Q8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESTREAM_KERNELS_TILE_Q8_INL_H_
#undef ESTREAM_KERNELS_TILE_Q8_INL_H_
#else
#define ESTREAM_KERNELS_TILE_Q8_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/int8_dot-inl.h"
#include "kernels/tile_bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

enum class TileShape {
  kWhole,   // one sum over 8 lines
  kHalves,  // two sums over 4 lines each, times an integer factor of the row (Q6_K)
  kSplit,   // high nibbles in 8 lines, times 16, plus low nibbles in 8 more (Q8_0 where bytes have 7 bits)
};

struct TileQ8 {
  alignas(64) uint8_t lines[2 * kTileElements / 4 * kLineBytes];
  alignas(64) int32_t factors[2][kTileRows];  // kHalves; as DotFactor makes them
  alignas(64) float scale[kTileRows];
  alignas(64) float min[kTileRows];
};

HWY_INLINE void StoreLine(VU v, uint8_t* line) { hn::Store(v, U32(), reinterpret_cast<uint32_t*>(line)); }

// Eight lines of bytes, each as Load<line>() gives them.
#define ES_STORE_OCTET(LOAD, LINE)                          \
  {                                                         \
    const Octet q = LOAD<LINE>(t);                          \
    StoreLine(q.low, lines + 2 * LINE * kLineBytes);        \
    StoreLine(q.high, lines + (2 * LINE + 1) * kLineBytes); \
  }
#define ES_STORE_LINES(LOAD) \
  ES_STORE_OCTET(LOAD, 0) ES_STORE_OCTET(LOAD, 1) ES_STORE_OCTET(LOAD, 2) ES_STORE_OCTET(LOAD, 3)

// --- One small struct a format. Each function serves the rows of one vector; `row` is the first.

struct Q8OfQ4_0 {
  static constexpr int kOffset = 8;
  static constexpr TileShape kShape = TileShape::kWhole;
  static constexpr bool kHasMin = false;
  static HWY_INLINE void Lines(const TilePlanes& t, uint8_t* lines) { ES_STORE_LINES(LoadNibbles) }
  static HWY_INLINE VF Scale(const TilePlanes& t) { return LoadHalves(t.scale); }
};

struct Q8OfQ4_1 : Q8OfQ4_0 {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static HWY_INLINE VF Min(const TilePlanes& t) { return LoadHalves(t.min); }
};

struct Q8OfQ5_0 : Q8OfQ4_0 {
  static constexpr int kOffset = 16;
  static HWY_INLINE void Lines(const TilePlanes& t, uint8_t* lines) { ES_STORE_LINES(LoadFiveBits) }
};

struct Q8OfQ5_1 : Q8OfQ5_0 {
  static constexpr bool kHasMin = true;
  // 16 d is exact, so that the sum rounds once, fused or not.
  static HWY_INLINE VF Min(const TilePlanes& t) {
    return hn::MulAdd(hn::Set(F32(), 16.0f), LoadHalves(t.scale), LoadHalves(t.min));
  }
};

struct Q8OfQ4_K : Q8OfQ4_1 {
  static HWY_INLINE VF Scale(const TilePlanes& t) { return SuperScale(t); }
  static HWY_INLINE VF Min(const TilePlanes& t) { return hn::Neg(SuperMin(t)); }
};

struct Q8OfQ5_K : Q8OfQ5_1 {
  static HWY_INLINE VF Scale(const TilePlanes& t) { return SuperScale(t); }
  static HWY_INLINE VF Min(const TilePlanes& t) {
    return hn::MulSub(hn::Set(F32(), 16.0f), SuperScale(t), SuperMin(t));
  }
};

struct Q8OfQ6_K : Q8OfQ4_0 {
  static constexpr int kOffset = 32;
  static constexpr TileShape kShape = TileShape::kHalves;
  static HWY_INLINE void Lines(const TilePlanes& t, uint8_t* lines) { ES_STORE_LINES(LoadSixBits) }
  static HWY_INLINE VF Scale(const TilePlanes& t) { return LoadHalves(t.super); }
};

struct Q8OfQ8_0 : Q8OfQ4_0 {
  static constexpr int kOffset = kDotTakesFullBytes ? 128 : 8;  // of the high nibble
  static constexpr TileShape kShape = kDotTakesFullBytes ? TileShape::kWhole : TileShape::kSplit;
  static HWY_INLINE void Lines(const TilePlanes& t, uint8_t* lines) {
    for (uint32_t line = 0; line < kTileElements / 4; ++line) {
      const VU q = hn::Xor(LoadLine(t.values + line * kLineBytes), Bytes(0x80));
      if constexpr (kShape == TileShape::kWhole) {
        StoreLine(q, lines + line * kLineBytes);
      } else {
        StoreLine(hn::And(hn::ShiftRight<4>(q), Bytes(0x0F)), lines + line * kLineBytes);
        StoreLine(hn::And(q, Bytes(0x0F)), lines + (kTileElements / 4 + line) * kLineBytes);
      }
    }
  }
};

#undef ES_STORE_LINES
#undef ES_STORE_OCTET

template <class Format>
HWY_NOINLINE void PrepareTile(const PanelReader& panel, uint64_t index, TileQ8& tile) {
  const auto lanes = static_cast<uint32_t>(hn::Lanes(F32()));
  for (uint32_t row = 0; row < kTileRows; row += lanes) {
    const TilePlanes t = panel.Tile(index, row);
    Format::Lines(t, tile.lines + 4 * row);
    hn::Store(Format::Scale(t), F32(), tile.scale + row);
    if constexpr (Format::kHasMin) hn::Store(Format::Min(t), F32(), tile.min + row);
    if constexpr (Format::kShape == TileShape::kHalves) {
      hn::Store(DotFactor(LoadSignedBytes(t.scale)), DotTag(), tile.factors[0] + row);
      hn::Store(DotFactor(LoadSignedBytes(t.scale + kTileRows)), DotTag(), tile.factors[1] + row);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
