// SPDX-License-Identifier: Apache-2.0
// The layout of panels, and the plain scalar decoder.
#include "format/tile.h"

#include "base/checked_math.h"
#include "base/macros.h"
#include "format/little_endian.h"
#include "format/tile_planes.h"

namespace estream {
namespace {

// One tile of a panel: where each plane continues for it.
struct TileView {
  const std::byte* values;
  const std::byte* high;
  const std::byte* scale;
  const std::byte* min;
  const std::byte* super;
  const std::byte* super_min;
};

// The part of a plane that belongs to its unit `index`; null when the format has no such plane.
const std::byte* PartOf(const std::byte* panel, uint64_t plane, uint64_t index, uint64_t unit_bytes) {
  return plane == PanelLayout::kNoPlane ? nullptr : panel + plane + index * unit_bytes;
}

TileView ViewTile(const PlaneBytes& unit, const PanelLayout& layout, const std::byte* panel, uint64_t tile) {
  const uint64_t super = tile / kTilesPerSuper;
  return {.values = PartOf(panel, layout.values, tile, unit.values),
          .high = PartOf(panel, layout.high, tile, unit.high),
          .scale = PartOf(panel, layout.scale, tile, unit.scale),
          .min = PartOf(panel, layout.min, tile, unit.min),
          .super = PartOf(panel, layout.super, super, unit.super),
          .super_min = PartOf(panel, layout.super_min, super, unit.super_min)};
}

int Nibble(const TileView& t, uint32_t row, uint32_t element) {
  const NibblePlace p = PlaceOfElement(element);
  return (static_cast<int>(t.values[p.line * kLineBytes + 4 * row + p.byte]) >> (4 * p.half)) & 15;
}

int FiveBits(const TileView& t, uint32_t row, uint32_t element) {
  const NibblePlace p = PlaceOfElement(element);
  const int bit = (static_cast<int>(t.high[4 * row + p.byte]) >> (2 * p.line + p.half)) & 1;
  return Nibble(t, row, element) | (bit << 4);
}

int SixBits(const TileView& t, uint32_t row, uint32_t element) {
  const NibblePlace p = PlaceOfElement(element);
  const int byte = static_cast<int>(t.high[p.line / 2 * kLineBytes + 4 * row + p.byte]);
  return Nibble(t, row, element) | (((byte >> (2 * (2 * (p.line % 2) + p.half))) & 3) << 4);
}

int SignedByte(const TileView& t, uint32_t row, uint32_t element) {
  return static_cast<int8_t>(t.values[element / 4 * kLineBytes + 4 * row + element % 4]);
}

float HalfOf(const std::byte* plane, uint32_t row) { return LoadHalf(plane + 2 * row); }
float ByteOf(const std::byte* plane, uint32_t row) { return static_cast<float>(static_cast<uint8_t>(plane[row])); }

float FloatOf(WeightFormat format, const TileView& t, uint32_t index) {
  if (format == WeightFormat::kF32) return LoadLe<float>(t.values + 4 * index);
  if (format == WeightFormat::kF16) return LoadHalf(t.values + 2 * index);
  return Bf16ToFloat(LoadLe<uint16_t>(t.values + 2 * index));
}

// The integers of one row; a format with an offset has it taken off.
void ReadQuants(WeightFormat format, const TileView& t, uint32_t row, int* q) {
  for (uint32_t e = 0; e < kTileElements; ++e) {
    switch (format) {
      case WeightFormat::kQ4_0:
        q[e] = Nibble(t, row, e) - 8;
        break;
      case WeightFormat::kQ5_0:
        q[e] = FiveBits(t, row, e) - 16;
        break;
      case WeightFormat::kQ5_1:
      case WeightFormat::kQ5_K:
        q[e] = FiveBits(t, row, e);
        break;
      case WeightFormat::kQ6_K:
        q[e] = SixBits(t, row, e) - 32;
        break;
      case WeightFormat::kQ8_0:
        q[e] = SignedByte(t, row, e);
        break;
      default:
        q[e] = Nibble(t, row, e);
    }
  }
}

TileRow ReadRow(WeightFormat format, const TileView& t, uint32_t row) {
  TileRow r;
  ReadQuants(format, t, row, r.q);
  r.has_min = t.min != nullptr;
  if (format == WeightFormat::kQ6_K) {
    r.scale = HalfOf(t.super, row);
    for (uint32_t half = 0; half < 2; ++half) r.factor[half] = static_cast<int8_t>(t.scale[kTileRows * half + row]);
  } else if (t.super != nullptr) {
    r.scale = HalfOf(t.super, row) * ByteOf(t.scale, row);
    r.min = -(HalfOf(t.super_min, row) * ByteOf(t.min, row));
  } else {
    ES_DCHECK(t.scale != nullptr);  // a float format has none, and no quantised rows
    r.scale = HalfOf(t.scale, row);
    if (r.has_min) r.min = HalfOf(t.min, row);
  }
  return r;
}

// Appends a plane of `count` units at *end, or says that there is none.
uint64_t AppendPlane(uint64_t unit_bytes, uint64_t count, uint64_t* end) {
  if (unit_bytes == 0) return PanelLayout::kNoPlane;
  const uint64_t start = *end;
  *end = AlignUp(start + unit_bytes * count, kPlaneAlignment);
  return start;
}

}  // namespace

PlaneBytes PlaneBytesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return {.values = 4096};
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return {.values = 2048};
    case WeightFormat::kQ4_0:
      return {.values = 512, .scale = 64};
    case WeightFormat::kQ4_1:
      return {.values = 512, .scale = 64, .min = 64};
    case WeightFormat::kQ5_0:
      return {.values = 512, .high = 128, .scale = 64};
    case WeightFormat::kQ5_1:
      return {.values = 512, .high = 128, .scale = 64, .min = 64};
    case WeightFormat::kQ8_0:
      return {.values = 1024, .scale = 64};
    case WeightFormat::kQ4_K:
      return {.values = 512, .scale = 32, .min = 32, .super = 64, .super_min = 64};
    case WeightFormat::kQ5_K:
      return {.values = 512, .high = 128, .scale = 32, .min = 32, .super = 64, .super_min = 64};
    case WeightFormat::kQ6_K:
      return {.values = 512, .high = 256, .scale = 64, .super = 64};
  }
  return {};
}

bool CanTile(WeightFormat format, uint64_t cols) {
  return cols != 0 && cols % kTileElements == 0 && cols % Traits(format).block_elements == 0;
}

PanelLayout MakePanelLayout(WeightFormat format, uint64_t cols) {
  ES_DCHECK(CanTile(format, cols));
  const PlaneBytes unit = PlaneBytesOf(format);
  const uint64_t tiles = cols / kTileElements;
  const uint64_t supers = tiles / kTilesPerSuper;
  PanelLayout layout;
  layout.values = AppendPlane(unit.values, tiles, &layout.bytes);
  layout.high = AppendPlane(unit.high, tiles, &layout.bytes);
  layout.scale = AppendPlane(unit.scale, tiles, &layout.bytes);
  layout.min = AppendPlane(unit.min, tiles, &layout.bytes);
  layout.super = AppendPlane(unit.super, supers, &layout.bytes);
  layout.super_min = AppendPlane(unit.super_min, supers, &layout.bytes);
  return layout;
}

uint64_t TiledBytes(WeightFormat format, uint64_t rows, uint64_t cols) {
  return CeilDiv(rows, kTileRows) * MakePanelLayout(format, cols).bytes;
}

TileRow ReadTileRow(WeightFormat format, const std::byte* panel, uint64_t cols, uint64_t tile, uint32_t row) {
  return ReadRow(format, ViewTile(PlaneBytesOf(format), MakePanelLayout(format, cols), panel, tile), row);
}

void DecodePanel(WeightFormat format, const std::byte* panel, uint64_t cols, uint64_t first, uint64_t count,
                 float* out) {
  ES_DCHECK(first % kTileElements == 0 && count % kTileElements == 0 && first + count <= cols);
  const PlaneBytes unit = PlaneBytesOf(format);
  const PanelLayout layout = MakePanelLayout(format, cols);
  for (uint64_t k = 0; k < count; k += kTileElements) {
    const TileView tile = ViewTile(unit, layout, panel, (first + k) / kTileElements);
    for (uint32_t row = 0; row < kTileRows; ++row) {
      float* to = out + kTileRows * k + row;
      if (unit.scale == 0) {
        for (uint32_t e = 0; e < kTileElements; ++e) to[kTileRows * e] = FloatOf(format, tile, kTileRows * e + row);
        continue;
      }
      const TileRow r = ReadRow(format, tile, row);
      for (uint32_t e = 0; e < kTileElements; ++e) {
        const float product = r.scale * static_cast<float>(r.factor[e < 16 ? 0 : 1]) * static_cast<float>(r.q[e]);
        to[kTileRows * e] = r.has_min ? product + r.min : product;
      }
    }
  }
}

}  // namespace estream
