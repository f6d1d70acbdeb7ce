// SPDX-License-Identifier: Apache-2.0
// Tiles of a panel as operands of integer dot products: lines of unsigned bytes, factors, scales and mins of their
// rows, read from the panel as they are needed (stored), or made ready for many rows (prepared).
//
// A format has an offset that is taken from the bytes, so that they are centred where 16-bit sums need it:
//   Q4_0 8;  Q4_1, Q4_K 0;  Q5_* 16;  Q6_K 32;  Q8_0 128 (0 where bytes are signed; where they may use
//   7 bits only they are split in 16 * high + low, and high has 8)
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

// --- One small struct a format. Each function serves the rows of one vector.

struct Q8OfQ4_0 {
  static constexpr int kOffset = 8;
  static constexpr TileShape kShape = TileShape::kWhole;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasSuper = false;
  template <int kLine>
  static HWY_INLINE Octet LoadBytes(const TilePlanes& t) {
    return LoadNibbles<kLine>(t);
  }
  static HWY_INLINE VF Scale(const TilePlanes& t) { return LoadHalves(t.scale); }
};

struct Q8OfQ4_1 : Q8OfQ4_0 {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static HWY_INLINE VF Min(const TilePlanes& t) { return LoadHalves(t.min); }
};

struct Q8OfQ5_0 : Q8OfQ4_0 {
  static constexpr int kOffset = 16;
  template <int kLine>
  static HWY_INLINE Octet LoadBytes(const TilePlanes& t) {
    return LoadFiveBits<kLine>(t);
  }
};

struct Q8OfQ5_1 : Q8OfQ5_0 {
  static constexpr bool kHasMin = true;
  // 16 d is exact, so that the sum rounds once, fused or not.
  static HWY_INLINE VF Min(const TilePlanes& t) {
    return hn::MulAdd(hn::Set(F32(), 16.0f), LoadHalves(t.scale), LoadHalves(t.min));
  }
};

struct Q8OfQ4_K : Q8OfQ4_1 {
  static constexpr bool kHasSuper = true;
  static HWY_INLINE VF Scale(const TilePlanes& t) { return SuperScale(t); }
  static HWY_INLINE VF Min(const TilePlanes& t) { return hn::Neg(SuperMin(t)); }
};

struct Q8OfQ5_K : Q8OfQ5_1 {
  static constexpr bool kHasSuper = true;
  static HWY_INLINE VF Scale(const TilePlanes& t) { return SuperScale(t); }
  static HWY_INLINE VF Min(const TilePlanes& t) {
    return hn::MulSub(hn::Set(F32(), 16.0f), SuperScale(t), SuperMin(t));
  }
};

struct Q8OfQ6_K : Q8OfQ4_0 {
  static constexpr bool kHasSuper = true;
  static constexpr int kOffset = 32;
  static constexpr TileShape kShape = TileShape::kHalves;
  template <int kLine>
  static HWY_INLINE Octet LoadBytes(const TilePlanes& t) {
    return LoadSixBits<kLine>(t);
  }
  static HWY_INLINE VF Scale(const TilePlanes& t) { return LoadHalves(t.super); }
  template <int kHalf>
  static HWY_INLINE DotVec Factor(const TilePlanes& t) {
    return DotFactor(LoadSignedBytes(t.scale + kHalf * kTileRows));
  }
};

struct Q8OfQ8_0 : Q8OfQ4_0 {
  static constexpr int kOffset = kDotTakesSignedBytes ? 0 : kDotTakesFullBytes ? 128 : 8;  // 8: of the high nibble
  static constexpr TileShape kShape = kDotTakesFullBytes ? TileShape::kWhole : TileShape::kSplit;
  template <int kLine>
  static HWY_INLINE Octet LoadBytes(const TilePlanes& t) {
    const VU flip = Bytes(kDotTakesSignedBytes ? 0 : 0x80);
    const Octet q = LoadFullBytes<kLine>(t);
    return {hn::Xor(q.low, flip), hn::Xor(q.high, flip)};
  }
};

// A format with the form of product that the CPU has.
template <class Format, DotUnit kDotUnit>
struct WithUnit : Format {
  static constexpr DotUnit kUnit = kDotUnit;
};

// --- Two sources of tiles. A Tile is a tile from the first row of a vector on.

enum class Take { kBytes, kHighNibbles, kLowNibbles };  // what of a weight byte a product takes; nibbles: kSplit

template <Take kTake>
HWY_INLINE VU TakeOf(VU v) {
  if constexpr (kTake == Take::kBytes) return v;
  if constexpr (kTake == Take::kHighNibbles) v = hn::ShiftRight<4>(v);
  return hn::And(v, Bytes(0x0F));
}

template <class Format>
struct StoredTiles : Format {
  using Tile = TilePlanes;

  HWY_INLINE Tile At(uint64_t tile, size_t row) const { return panel.Tile(tile, static_cast<uint32_t>(row)); }

  template <int kLine, Take kTake>
  static HWY_INLINE Octet Load(const Tile& t) {
    const Octet q = Format::template LoadBytes<kLine>(t);
    return {TakeOf<kTake>(q.low), TakeOf<kTake>(q.high)};
  }

  PanelReader panel;
};

// One tile, unpacked; 2 KiB of lines where they are split, else 1 KiB.
struct PreparedBytes {
  alignas(64) uint8_t lines[2 * kTileElements / 4 * kLineBytes];
  alignas(64) int32_t factors[2][kTileRows];  // kHalves; as DotFactor makes them
  alignas(64) float scale[kTileRows];
  alignas(64) float min[kTileRows];
};

template <class Format>
struct PreparedTile {
  static constexpr DotUnit kUnit = Format::kUnit;
  static constexpr int kOffset = Format::kOffset;
  static constexpr TileShape kShape = Format::kShape;
  static constexpr bool kHasMin = Format::kHasMin;
  struct Tile {
    const PreparedBytes* bytes;
    size_t row;
  };

  HWY_INLINE Tile At(uint64_t, size_t row) const { return {bytes, row}; }

  template <int kLine, Take kTake>
  static HWY_INLINE Octet Load(const Tile& t) {
    constexpr int kFirst = 2 * kLine + (kTake == Take::kLowNibbles ? 8 : 0);
    const uint8_t* line = t.bytes->lines + kFirst * kLineBytes + 4 * t.row;
    return {LoadLine(line), LoadLine(line + kLineBytes)};
  }
  static HWY_INLINE VF Scale(const Tile& t) { return hn::Load(F32(), t.bytes->scale + t.row); }
  static HWY_INLINE VF Min(const Tile& t) { return hn::Load(F32(), t.bytes->min + t.row); }
  template <int kHalf>
  static HWY_INLINE DotVec Factor(const Tile& t) {
    return hn::Load(DotTag(), t.bytes->factors[kHalf] + t.row);
  }

  const PreparedBytes* bytes;
};

template <int kLine, Take kTake, class Format>
HWY_INLINE void PrepareLines(const TilePlanes& t, uint8_t* lines) {
  const Octet q = StoredTiles<Format>::template Load<kLine, kTake>(t);
  constexpr int kFirst = 2 * kLine + (kTake == Take::kLowNibbles ? 8 : 0);
  hn::Store(q.low, U32(), reinterpret_cast<uint32_t*>(lines + kFirst * kLineBytes));
  hn::Store(q.high, U32(), reinterpret_cast<uint32_t*>(lines + (kFirst + 1) * kLineBytes));
}

template <Take kTake, class Format>
HWY_INLINE void PrepareAllLines(const TilePlanes& t, uint8_t* lines) {
  PrepareLines<0, kTake, Format>(t, lines);
  PrepareLines<1, kTake, Format>(t, lines);
  PrepareLines<2, kTake, Format>(t, lines);
  PrepareLines<3, kTake, Format>(t, lines);
}

template <class Format>
HWY_NOINLINE void PrepareTile(const PanelReader& panel, uint64_t index, PreparedBytes& out) {
  const auto lanes = static_cast<uint32_t>(hn::Lanes(F32()));
  for (uint32_t row = 0; row < kTileRows; row += lanes) {
    const TilePlanes t = panel.Tile(index, row);
    uint8_t* const lines = out.lines + 4 * row;
    if constexpr (Format::kShape == TileShape::kSplit) {
      PrepareAllLines<Take::kHighNibbles, Format>(t, lines);
      PrepareAllLines<Take::kLowNibbles, Format>(t, lines);
    } else {
      PrepareAllLines<Take::kBytes, Format>(t, lines);
    }
    hn::Store(Format::Scale(t), F32(), out.scale + row);
    if constexpr (Format::kHasMin) hn::Store(Format::Min(t), F32(), out.min + row);
    if constexpr (Format::kShape == TileShape::kHalves) {
      hn::Store(Format::template Factor<0>(t), DotTag(), out.factors[0] + row);
      hn::Store(Format::template Factor<1>(t), DotTag(), out.factors[1] + row);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
