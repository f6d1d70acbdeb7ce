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

// (d * sc) * q - (dmin * mn): both products in brackets are exact in float.
float SuperScaled(const TileView& t, uint32_t row, int q) {
  const float scale = HalfOf(t.super, row) * ByteOf(t.scale, row);
  const float min = HalfOf(t.super_min, row) * ByteOf(t.min, row);
  return scale * static_cast<float>(q) - min;
}

float DecodeElement(WeightFormat format, const TileView& t, uint32_t row, uint32_t element) {
  const uint32_t index = kTileRows * element + row;
  switch (format) {
    case WeightFormat::kF32:
      return LoadLe<float>(t.values + 4 * index);
    case WeightFormat::kF16:
      return LoadHalf(t.values + 2 * index);
    case WeightFormat::kBF16:
      return Bf16ToFloat(LoadLe<uint16_t>(t.values + 2 * index));
    case WeightFormat::kQ4_0:
      return HalfOf(t.scale, row) * static_cast<float>(Nibble(t, row, element) - 8);
    case WeightFormat::kQ4_1:
      return HalfOf(t.scale, row) * static_cast<float>(Nibble(t, row, element)) + HalfOf(t.min, row);
    case WeightFormat::kQ5_0:
      return HalfOf(t.scale, row) * static_cast<float>(FiveBits(t, row, element) - 16);
    case WeightFormat::kQ5_1:
      return HalfOf(t.scale, row) * static_cast<float>(FiveBits(t, row, element)) + HalfOf(t.min, row);
    case WeightFormat::kQ8_0:
      return HalfOf(t.scale, row) * static_cast<float>(SignedByte(t, row, element));
    case WeightFormat::kQ4_K:
      return SuperScaled(t, row, Nibble(t, row, element));
    case WeightFormat::kQ5_K:
      return SuperScaled(t, row, FiveBits(t, row, element));
    case WeightFormat::kQ6_K: {
      const auto sc = static_cast<int8_t>(t.scale[kTileRows * (element / 16) + row]);
      const float scale = HalfOf(t.super, row) * static_cast<float>(sc);
      return scale * static_cast<float>(SixBits(t, row, element) - 32);
    }
  }
  return 0.0f;
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

void DecodePanel(WeightFormat format, const std::byte* panel, uint64_t cols, uint64_t first, uint64_t count,
                 float* out) {
  ES_DCHECK(first % kTileElements == 0 && count % kTileElements == 0 && first + count <= cols);
  const PlaneBytes unit = PlaneBytesOf(format);
  const PanelLayout layout = MakePanelLayout(format, cols);
  for (uint64_t k = 0; k < count; k += kTileElements) {
    const TileView tile = ViewTile(unit, layout, panel, (first + k) / kTileElements);
    for (uint32_t element = 0; element < kTileElements; ++element) {
      for (uint32_t row = 0; row < kTileRows; ++row) {
        out[kTileRows * (k + element) + row] = DecodeElement(format, tile, row, element);
      }
    }
  }
}

}  // namespace estream
