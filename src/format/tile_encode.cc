// SPDX-License-Identifier: Apache-2.0
// From GGUF blocks to panels: each row's 32 elements are read as plain integers, then laid into the planes.
#include <algorithm>
#include <cstring>

#include "base/macros.h"
#include "format/k_quants.h"
#include "format/little_endian.h"
#include "format/tile.h"
#include "format/tile_planes.h"

namespace estream {
namespace {

// 32 elements of one row, unpacked; fields a format does not have stay zero.
struct RowOfTile {
  uint8_t q[kTileElements] = {};  // 4, 5 or 6 bits, or int8 as its byte
  uint16_t scale_half = 0;        // d
  uint16_t min_half = 0;          // m
  uint8_t scale_byte[2] = {};     // sc; Q6_K: one per 16 elements
  uint8_t min_byte = 0;           // mn
};

uint8_t Byte(const std::byte* p) { return static_cast<uint8_t>(*p); }

// Blocks of 32: elements 0-15 are the low nibbles of 16 bytes, 16-31 the high ones.
void ReadNibbles32(const std::byte* src, RowOfTile* t) {
  for (uint32_t i = 0; i < 16; ++i) {
    t->q[i] = Byte(src + i) & 15;
    t->q[16 + i] = Byte(src + i) >> 4;
  }
}

void AddHighBits32(const std::byte* src, RowOfTile* t) {
  const auto high = LoadLe<uint32_t>(src);
  for (uint32_t i = 0; i < kTileElements; ++i) t->q[i] |= static_cast<uint8_t>(((high >> i) & 1) << 4);
}

// Sub-block `sub` of a Q4_K or Q5_K block: 6-bit scale and min, nibbles at `nibbles`.
void ReadSubBlock(const std::byte* block, const std::byte* nibbles, uint32_t sub, RowOfTile* t) {
  const SixBitScales scales = UnpackSixBitScales(block + 4);
  t->scale_byte[0] = scales.scale[sub];
  t->min_byte = scales.min[sub];
  const uint32_t shift = sub % 2 * 4;
  for (uint32_t i = 0; i < kTileElements; ++i) t->q[i] = (Byte(nibbles + sub / 2 * 32 + i) >> shift) & 15;
}

// Run `run` of 32 elements of a Q6_K block: 128 bytes of nibbles, 64 of bit pairs, 16 int8 scales.
void ReadQ6K(const std::byte* block, uint32_t run, RowOfTile* t) {
  const uint32_t half = run / 4, r = run % 4;
  const std::byte* low = block + half * 64 + r % 2 * 32;
  const std::byte* high = block + 128 + half * 32;
  for (uint32_t i = 0; i < kTileElements; ++i) {
    const uint32_t nibble = (Byte(low + i) >> (r / 2 * 4)) & 15;
    const uint32_t pair = (Byte(high + i) >> (2 * r)) & 3;
    t->q[i] = static_cast<uint8_t>(nibble | (pair << 4));
  }
  t->scale_byte[0] = Byte(block + 192 + 2 * run);
  t->scale_byte[1] = Byte(block + 193 + 2 * run);
}

// `block` is the block that holds the tile; `sub` counts tiles inside it.
RowOfTile ReadTile(WeightFormat format, const std::byte* block, uint32_t sub) {
  RowOfTile t;
  switch (format) {
    case WeightFormat::kQ4_0:
      t.scale_half = LoadLe<uint16_t>(block);
      ReadNibbles32(block + 2, &t);
      break;
    case WeightFormat::kQ4_1:
      t.scale_half = LoadLe<uint16_t>(block);
      t.min_half = LoadLe<uint16_t>(block + 2);
      ReadNibbles32(block + 4, &t);
      break;
    case WeightFormat::kQ5_0:
      t.scale_half = LoadLe<uint16_t>(block);
      ReadNibbles32(block + 6, &t);
      AddHighBits32(block + 2, &t);
      break;
    case WeightFormat::kQ5_1:
      t.scale_half = LoadLe<uint16_t>(block);
      t.min_half = LoadLe<uint16_t>(block + 2);
      ReadNibbles32(block + 8, &t);
      AddHighBits32(block + 4, &t);
      break;
    case WeightFormat::kQ8_0:
      t.scale_half = LoadLe<uint16_t>(block);
      std::memcpy(t.q, block + 2, kTileElements);
      break;
    case WeightFormat::kQ4_K:
      ReadSubBlock(block, block + 16, sub, &t);
      break;
    case WeightFormat::kQ5_K:
      ReadSubBlock(block, block + 48, sub, &t);
      for (uint32_t i = 0; i < kTileElements; ++i) {
        t.q[i] |= static_cast<uint8_t>(((Byte(block + 16 + i) >> sub) & 1) << 4);
      }
      break;
    case WeightFormat::kQ6_K:
      ReadQ6K(block, sub, &t);
      break;
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      break;  // not made of blocks; see EncodeFloats
  }
  return t;
}

void PutNibbles(const RowOfTile& t, uint32_t row, std::byte* values) {
  for (uint32_t line = 0; line < 4; ++line) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t low = t.q[8 * line + i] & 15, high = t.q[8 * line + 4 + i] & 15;
      values[line * kLineBytes + 4 * row + i] = static_cast<std::byte>(low | (high << 4));
    }
  }
}

// Gathers bit 4 of every element; see tile.h for the places.
void PutOneHighBit(const RowOfTile& t, uint32_t row, std::byte* high) {
  uint32_t bytes[4] = {};
  for (uint32_t e = 0; e < kTileElements; ++e) {
    const NibblePlace p = PlaceOfElement(e);
    bytes[p.byte] |= ((t.q[e] >> 4) & 1u) << (2 * p.line + p.half);
  }
  for (uint32_t i = 0; i < 4; ++i) high[4 * row + i] = static_cast<std::byte>(bytes[i]);
}

void PutTwoHighBits(const RowOfTile& t, uint32_t row, std::byte* high) {
  uint32_t bytes[2][4] = {};
  for (uint32_t e = 0; e < kTileElements; ++e) {
    const NibblePlace p = PlaceOfElement(e);
    bytes[p.line / 2][p.byte] |= ((t.q[e] >> 4) & 3u) << (2 * (2 * (p.line % 2) + p.half));
  }
  for (uint32_t i = 0; i < 4; ++i) {
    high[4 * row + i] = static_cast<std::byte>(bytes[0][i]);
    high[kLineBytes + 4 * row + i] = static_cast<std::byte>(bytes[1][i]);
  }
}

void PutBytes(const RowOfTile& t, uint32_t row, std::byte* values) {
  for (uint32_t line = 0; line < 8; ++line) std::memcpy(values + line * kLineBytes + 4 * row, t.q + 4 * line, 4);
}

void PutHalf(uint16_t half, uint32_t row, std::byte* plane) { std::memcpy(plane + 2 * row, &half, sizeof(half)); }

// Where a format's fp16 super-scales stand in its block.
struct SuperFields {
  uint32_t d;
  uint32_t dmin;
};
SuperFields SuperFieldsOf(WeightFormat format) {
  return format == WeightFormat::kQ6_K ? SuperFields{208, 0} : SuperFields{0, 2};
}

void PutTile(WeightFormat format, const RowOfTile& t, const PlaneBytes& unit, const PanelLayout& layout, uint64_t tile,
             uint32_t row, std::byte* panel) {
  std::byte* values = panel + layout.values + tile * unit.values;
  if (format == WeightFormat::kQ8_0) {
    PutBytes(t, row, values);
  } else {
    PutNibbles(t, row, values);
  }
  if (unit.high == 128) PutOneHighBit(t, row, panel + layout.high + tile * unit.high);
  if (unit.high == 256) PutTwoHighBits(t, row, panel + layout.high + tile * unit.high);

  std::byte* scale = panel + layout.scale + tile * unit.scale;
  if (unit.super == 0) {
    PutHalf(t.scale_half, row, scale);
    if (unit.min != 0) PutHalf(t.min_half, row, panel + layout.min + tile * unit.min);
    return;
  }
  scale[row] = static_cast<std::byte>(t.scale_byte[0]);
  if (unit.scale == 2 * kTileRows) scale[kTileRows + row] = static_cast<std::byte>(t.scale_byte[1]);
  if (unit.min != 0) panel[layout.min + tile * unit.min + row] = static_cast<std::byte>(t.min_byte);
}

void EncodeRow(WeightFormat format, const std::byte* src, uint64_t cols, uint32_t row, const PlaneBytes& unit,
               const PanelLayout& layout, std::byte* panel) {
  const WeightFormatTraits& traits = Traits(format);
  const uint32_t tiles_per_block = traits.block_elements / kTileElements;
  for (uint64_t tile = 0; tile < cols / kTileElements; ++tile) {
    const std::byte* block = src + tile / tiles_per_block * traits.block_bytes;
    const auto sub = static_cast<uint32_t>(tile % tiles_per_block);
    PutTile(format, ReadTile(format, block, sub), unit, layout, tile, row, panel);
    if (unit.super == 0 || sub != 0) continue;
    const SuperFields fields = SuperFieldsOf(format);
    const uint64_t super = tile / kTilesPerSuper;
    PutHalf(LoadLe<uint16_t>(block + fields.d), row, panel + layout.super + super * unit.super);
    if (unit.super_min == 0) continue;
    PutHalf(LoadLe<uint16_t>(block + fields.dmin), row, panel + layout.super_min + super * unit.super_min);
  }
}

// F32, F16 and BF16: a transposition.
void EncodeFloats(const std::byte* src, uint64_t cols, uint32_t row, uint32_t value_bytes, std::byte* panel) {
  for (uint64_t k = 0; k < cols; ++k) {
    std::memcpy(panel + (kTileRows * k + row) * value_bytes, src + k * value_bytes, value_bytes);
  }
}

}  // namespace

void EncodePanel(WeightFormat format, const std::byte* src, uint64_t row_stride, uint32_t rows, uint64_t cols,
                 std::byte* panel) {
  ES_DCHECK(rows <= kTileRows && CanTile(format, cols));
  const PlaneBytes unit = PlaneBytesOf(format);
  const PanelLayout layout = MakePanelLayout(format, cols);
  std::memset(panel, 0, layout.bytes);
  for (uint32_t row = 0; row < rows; ++row) {
    if (unit.scale == 0) {
      EncodeFloats(src + row * row_stride, cols, row, unit.values / (kTileRows * kTileElements), panel);
    } else {
      EncodeRow(format, src + row * row_stride, cols, row, unit, layout, panel);
    }
  }
}

}  // namespace estream
