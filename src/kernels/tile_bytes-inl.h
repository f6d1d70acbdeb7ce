// SPDX-License-Identifier: Apache-2.0
// Reading the planes of a tile into vectors whose 32-bit lanes are rows: quants as unsigned bytes, scales as floats.

#if defined(ESTREAM_KERNELS_TILE_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESTREAM_KERNELS_TILE_BYTES_INL_H_
#undef ESTREAM_KERNELS_TILE_BYTES_INL_H_
#else
#define ESTREAM_KERNELS_TILE_BYTES_INL_H_
#endif

#include "format/tile_planes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that a vector is never more than half a line.
using F32 = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F32>;
using VF = hn::Vec<F32>;
using VU = hn::Vec<U32>;

// The planes of one tile, from the first row of a vector on.
struct TilePlanes {
  const uint8_t* values;
  const uint8_t* high;
  const uint8_t* scale;
  const uint8_t* min;
  const uint8_t* super;
  const uint8_t* super_min;
};

// A panel whose tiles are visited one after the other. A plane that does not exist stands at the start of the panel and
// is never read.
class PanelReader {
 public:
  PanelReader(WeightFormat format, const std::byte* panel, uint64_t cols)
      : panel_(reinterpret_cast<const uint8_t*>(panel)), unit_(PlaneBytesOf(format)) {
    const PanelLayout layout = MakePanelLayout(format, cols);
    const auto start = [&](uint64_t plane) { return panel_ + (plane == PanelLayout::kNoPlane ? 0 : plane); };
    first_ = {start(layout.values), start(layout.high),  start(layout.scale),
              start(layout.min),    start(layout.super), start(layout.super_min)};
    scale_bytes_ = unit_.super == 0 ? 2 : 1;  // fp16 or one byte a row
  }

  TilePlanes Tile(uint64_t tile, uint32_t row) const {
    const uint64_t super = tile / kTilesPerSuper;
    return {.values = first_.values + tile * unit_.values + 4 * row,
            .high = first_.high + tile * unit_.high + 4 * row,
            .scale = first_.scale + tile * unit_.scale + scale_bytes_ * row,
            .min = first_.min + tile * unit_.min + scale_bytes_ * row,
            .super = first_.super + super * unit_.super + 2 * row,
            .super_min = first_.super_min + super * unit_.super_min + 2 * row};
  }

 private:
  const uint8_t* panel_;
  PlaneBytes unit_;
  TilePlanes first_;
  uint32_t scale_bytes_;
};

HWY_INLINE VU LoadLine(const uint8_t* p) { return hn::LoadU(U32(), reinterpret_cast<const uint32_t*>(p)); }

// The same byte in all four places of every lane.
HWY_INLINE VU Bytes(uint32_t byte) { return hn::Set(U32(), byte * 0x01010101u); }

HWY_INLINE VF LoadHalves(const uint8_t* p) {
  const hn::Rebind<hwy::float16_t, F32> df16;
  return hn::PromoteTo(F32(), hn::LoadU(df16, reinterpret_cast<const hwy::float16_t*>(p)));
}

HWY_INLINE hn::Vec<hn::RebindToSigned<F32>> LoadBytes(const uint8_t* p) {
  return hn::PromoteTo(hn::RebindToSigned<F32>(), hn::LoadU(hn::Rebind<uint8_t, F32>(), p));
}

HWY_INLINE hn::Vec<hn::RebindToSigned<F32>> LoadSignedBytes(const uint8_t* p) {
  const auto* bytes = reinterpret_cast<const int8_t*>(p);
  return hn::PromoteTo(hn::RebindToSigned<F32>(), hn::LoadU(hn::Rebind<int8_t, F32>(), bytes));
}

// d * sc and dmin * mn of the K formats, exact.
HWY_INLINE VF SuperScale(const TilePlanes& t) {
  return hn::Mul(LoadHalves(t.super), hn::ConvertTo(F32(), LoadBytes(t.scale)));
}
HWY_INLINE VF SuperMin(const TilePlanes& t) {
  return hn::Mul(LoadHalves(t.super_min), hn::ConvertTo(F32(), LoadBytes(t.min)));
}

// Elements 8 * kLine .. + 3 (low) and 8 * kLine + 4 .. + 7 (high) of every lane's row.
struct Octet {
  VU low;
  VU high;
};

template <int kLine>
HWY_INLINE Octet LoadNibbles(const TilePlanes& t) {
  const VU v = LoadLine(t.values + kLine * kLineBytes);
  return {hn::And(v, Bytes(0x0F)), hn::And(hn::ShiftRight<4>(v), Bytes(0x0F))};
}

// v with its bits moved up by kBits, or down where that is negative. Bits of a neighbouring byte may come along.
template <int kBits>
HWY_INLINE VU MoveBits(VU v) {
  if constexpr (kBits >= 0) {
    return hn::ShiftLeft<kBits>(v);
  } else {
    return hn::ShiftRight<-kBits>(v);
  }
}

// High bits are moved to where they belong in one step, and masked and merged in another.
template <int kLine>
HWY_INLINE Octet LoadFiveBits(const TilePlanes& t) {
  const Octet q = LoadNibbles<kLine>(t);
  const VU high = LoadLine(t.high);
  return {hn::OrAnd(q.low, MoveBits<4 - 2 * kLine>(high), Bytes(0x10)),
          hn::OrAnd(q.high, MoveBits<3 - 2 * kLine>(high), Bytes(0x10))};
}

template <int kLine>
HWY_INLINE Octet LoadSixBits(const TilePlanes& t) {
  constexpr int kDown = 4 * (kLine % 2);
  const Octet q = LoadNibbles<kLine>(t);
  const VU high = LoadLine(t.high + kLine / 2 * kLineBytes);
  return {hn::OrAnd(q.low, MoveBits<4 - kDown>(high), Bytes(0x30)),
          hn::OrAnd(q.high, MoveBits<2 - kDown>(high), Bytes(0x30))};
}

template <int kLine>
HWY_INLINE Octet LoadFullBytes(const TilePlanes& t) {
  return {LoadLine(t.values + 2 * kLine * kLineBytes), LoadLine(t.values + (2 * kLine + 1) * kLineBytes)};
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
