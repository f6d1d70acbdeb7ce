// SPDX-License-Identifier: Apache-2.0
// Panels to float, one vector lane a row, without a shuffle.
//
// A 32-bit lane of a line holds four elements of its row, one a byte. Every format is first brought to such lanes of
// signed bytes, left-justified where the format has an offset: with o = 2^(bits-1), (q - o) is q's top bit flipped and
// read as signed. A byte is then moved to the top of its lane and converted to float as byte * 2^24; the power of two
// goes into the scale. Scales stay far from float's limits, so all of this is exact: the one rounding is that of the
// scalar decoder, the last subtraction or addition of a min.
#include "kernels/decode_panel.h"

#include <cstring>

#include "base/macros.h"
#include "format/tile.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/decode_panel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/tile_bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {
namespace {

// --- One small struct a format: signed bytes q' = (q - offset) * 2^kShift, the scale of each half, and the min.

HWY_INLINE Octet FlipTopBits(const Octet& q) { return {hn::Xor(q.low, Bytes(0x80)), hn::Xor(q.high, Bytes(0x80))}; }

template <int kBits>
HWY_INLINE Octet ShiftBytes(const Octet& q) {
  return {hn::ShiftLeft<kBits>(q.low), hn::ShiftLeft<kBits>(q.high)};
}

struct Q4_0 {
  static constexpr int kShift = 4;
  static constexpr bool kHasMin = false;
  template <int kLine>
  static HWY_INLINE Octet Load(const TilePlanes& t) {
    const VU v = hn::Xor(LoadLine(t.values + kLine * kLineBytes), Bytes(0x88));
    return {hn::And(hn::ShiftLeft<4>(v), Bytes(0xF0)), hn::And(v, Bytes(0xF0))};
  }
  template <int kHalf>
  static HWY_INLINE VF Scale(const TilePlanes& t) {
    return LoadHalves(t.scale);
  }
};

struct Q4_1 {
  static constexpr int kShift = 0;
  static constexpr bool kHasMin = true;
  template <int kLine>
  static HWY_INLINE Octet Load(const TilePlanes& t) {
    return LoadNibbles<kLine>(t);
  }
  template <int kHalf>
  static HWY_INLINE VF Scale(const TilePlanes& t) {
    return LoadHalves(t.scale);
  }
  static HWY_INLINE VF Min(const TilePlanes& t) { return LoadHalves(t.min); }
};

struct Q5_0 : Q4_0 {
  static constexpr int kShift = 3;
  template <int kLine>
  static HWY_INLINE Octet Load(const TilePlanes& t) {
    return FlipTopBits(ShiftBytes<3>(LoadFiveBits<kLine>(t)));
  }
};

struct Q5_1 : Q4_1 {
  template <int kLine>
  static HWY_INLINE Octet Load(const TilePlanes& t) {
    return LoadFiveBits<kLine>(t);
  }
};

struct Q8_0 : Q4_0 {
  static constexpr int kShift = 0;
  template <int kLine>
  static HWY_INLINE Octet Load(const TilePlanes& t) {
    return LoadFullBytes<kLine>(t);
  }
};

struct Q4_K : Q4_1 {
  template <int kHalf>
  static HWY_INLINE VF Scale(const TilePlanes& t) {
    return SuperScale(t);
  }
  static HWY_INLINE VF Min(const TilePlanes& t) { return hn::Neg(SuperMin(t)); }
};

struct Q5_K : Q4_K {
  template <int kLine>
  static HWY_INLINE Octet Load(const TilePlanes& t) {
    return LoadFiveBits<kLine>(t);
  }
};

struct Q6_K {
  static constexpr int kShift = 2;
  static constexpr bool kHasMin = false;
  template <int kLine>
  static HWY_INLINE Octet Load(const TilePlanes& t) {
    return FlipTopBits(ShiftBytes<2>(LoadSixBits<kLine>(t)));
  }
  template <int kHalf>
  static HWY_INLINE VF Scale(const TilePlanes& t) {
    return hn::Mul(LoadHalves(t.super), hn::ConvertTo(F32(), LoadSignedBytes(t.scale + kHalf * kTileRows)));
  }
};

// --- The loops.

// Moves byte kByte of every lane to its top and clears the rest.
template <int kByte>
HWY_INLINE VU ByteToTop(VU v) {
  if constexpr (kByte == 0) return hn::ShiftLeft<24>(v);
  const VU top = hn::Set(U32(), 0xFF000000u);
  if constexpr (kByte == 3) return hn::And(v, top);
#if HWY_TARGET == HWY_SCALAR
  return hn::And(hn::ShiftLeft<8 * (3 - kByte)>(v), top);
#else
  // One shuffle inside 128 bits instead of a shift and a mask; 0x80 asks for a zero.
  constexpr uint8_t kB = kByte;
  alignas(16) static constexpr uint8_t kMove[16] = {0x80, 0x80, 0x80, kB,     0x80, 0x80, 0x80, kB + 4,
                                                    0x80, 0x80, 0x80, kB + 8, 0x80, 0x80, 0x80, kB + 12};
  const hn::Repartition<uint8_t, U32> du8;
  return hn::BitCast(U32(), hn::TableLookupBytesOr0(hn::BitCast(du8, v), hn::LoadDup128(du8, kMove)));
#endif
}

// Converts byte kByte of every lane to float, as byte * 2^24.
template <int kByte>
HWY_INLINE VF ByteToFloat(VU v) {
  return hn::ConvertTo(F32(), hn::BitCast(hn::RebindToSigned<F32>(), ByteToTop<kByte>(v)));
}

template <class Format, int kByte>
HWY_INLINE void StoreElement(VU bytes, VF scale, VF min, float* out) {
  const VF q = ByteToFloat<kByte>(bytes);
  // q * scale is exact, so whether the sum is fused does not show.
  const VF value = Format::kHasMin ? hn::MulAdd(q, scale, min) : hn::Mul(q, scale);
  hn::StoreU(value, F32(), out + kByte * kTileRows);
}

// Elements 8 * kLine .. 8 * kLine + 7 of one tile.
template <class Format, int kLine>
HWY_INLINE void DecodeLine(const TilePlanes& t, VF scale, VF min, float* out) {
  const Octet q = Format::template Load<kLine>(t);
  float* line = out + 8 * kLine * kTileRows;
  StoreElement<Format, 0>(q.low, scale, min, line);
  StoreElement<Format, 1>(q.low, scale, min, line);
  StoreElement<Format, 2>(q.low, scale, min, line);
  StoreElement<Format, 3>(q.low, scale, min, line);
  line += 4 * kTileRows;
  StoreElement<Format, 0>(q.high, scale, min, line);
  StoreElement<Format, 1>(q.high, scale, min, line);
  StoreElement<Format, 2>(q.high, scale, min, line);
  StoreElement<Format, 3>(q.high, scale, min, line);
}

// One tile, as many rows as a vector has lanes.
template <class Format>
HWY_INLINE void DecodeTile(const TilePlanes& t, float* out) {
  constexpr float kUnit = 1.0f / static_cast<float>(1 << (24 + Format::kShift));
  const VF unit = hn::Set(F32(), kUnit);
  VF min = hn::Zero(F32());
  if constexpr (Format::kHasMin) min = Format::Min(t);
  const VF scale0 = hn::Mul(Format::template Scale<0>(t), unit);
  DecodeLine<Format, 0>(t, scale0, min, out);
  DecodeLine<Format, 1>(t, scale0, min, out);
  const VF scale1 = hn::Mul(Format::template Scale<1>(t), unit);
  DecodeLine<Format, 2>(t, scale1, min, out);
  DecodeLine<Format, 3>(t, scale1, min, out);
}

template <class Format>
HWY_NOINLINE void DecodeBlocks(const PanelReader& panel, uint64_t first_tile, uint64_t tiles, float* out) {
  const auto lanes = static_cast<uint32_t>(hn::Lanes(F32()));
  for (uint64_t i = 0; i < tiles; ++i) {
    for (uint32_t row = 0; row < kTileRows; row += lanes) {
      DecodeTile<Format>(panel.Tile(first_tile + i, row), out + i * kTileElements * kTileRows + row);
    }
  }
}

HWY_NOINLINE void DecodeHalves(const uint8_t* src, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; i += hn::Lanes(F32())) hn::StoreU(LoadHalves(src + 2 * i), F32(), out + i);
}

HWY_NOINLINE void DecodeBf16(const uint8_t* src, uint64_t count, float* out) {
  const hn::Rebind<uint16_t, F32> du16;
  for (uint64_t i = 0; i < count; i += hn::Lanes(F32())) {
    const VU bits = hn::PromoteTo(U32(), hn::LoadU(du16, reinterpret_cast<const uint16_t*>(src + 2 * i)));
    hn::StoreU(hn::BitCast(F32(), hn::ShiftLeft<16>(bits)), F32(), out + i);
  }
}

}  // namespace

void DecodePanelTarget(WeightFormat format, const std::byte* panel, uint64_t cols, uint64_t first, uint64_t count,
                       float* out) {
  const PanelReader reader(format, panel, cols);
  const auto* bytes = reinterpret_cast<const uint8_t*>(panel);
  const uint64_t tile = first / kTileElements, tiles = count / kTileElements;
  switch (format) {
    case WeightFormat::kF32:
      std::memcpy(out, bytes + 4 * kTileRows * first, 4 * kTileRows * count);
      return;
    case WeightFormat::kF16:
      return DecodeHalves(bytes + 2 * kTileRows * first, kTileRows * count, out);
    case WeightFormat::kBF16:
      return DecodeBf16(bytes + 2 * kTileRows * first, kTileRows * count, out);
    case WeightFormat::kQ4_0:
      return DecodeBlocks<Q4_0>(reader, tile, tiles, out);
    case WeightFormat::kQ4_1:
      return DecodeBlocks<Q4_1>(reader, tile, tiles, out);
    case WeightFormat::kQ5_0:
      return DecodeBlocks<Q5_0>(reader, tile, tiles, out);
    case WeightFormat::kQ5_1:
      return DecodeBlocks<Q5_1>(reader, tile, tiles, out);
    case WeightFormat::kQ8_0:
      return DecodeBlocks<Q8_0>(reader, tile, tiles, out);
    case WeightFormat::kQ4_K:
      return DecodeBlocks<Q4_K>(reader, tile, tiles, out);
    case WeightFormat::kQ5_K:
      return DecodeBlocks<Q5_K>(reader, tile, tiles, out);
    case WeightFormat::kQ6_K:
      return DecodeBlocks<Q6_K>(reader, tile, tiles, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(DecodePanelTarget);

void DecodePanelF32(WeightFormat format, const std::byte* panel, uint64_t cols, uint64_t first, uint64_t count,
                    float* out) {
  ES_DCHECK(first % kTileElements == 0 && count % kTileElements == 0 && first + count <= cols);
  HWY_DYNAMIC_DISPATCH(DecodePanelTarget)(format, panel, cols, first, count, out);
}

}  // namespace estream
#endif  // HWY_ONCE
