// SPDX-License-Identifier: Apache-2.0
// From GGUF blocks to panels: four elements at a time, as the bytes of a word, from a row into the planes.
//
// Tile after tile, all rows of each: a tile's planes stay in the first-level cache while its rows are laid in.
#include <algorithm>
#include <cstring>

#include "base/macros.h"
#include "format/k_quants.h"
#include "format/little_endian.h"
#include "format/tile.h"
#include "format/tile_planes.h"

namespace estream {
namespace {

constexpr uint32_t kWords = kTileElements / 4;
constexpr uint32_t kLowNibbles = 0x0F0F0F0F;
constexpr uint32_t kLowPairs = 0x03030303;
constexpr uint32_t kLowBits = 0x01010101;

// 32 elements of a row: byte i of word w is element 4w + i, as 4, 5 or 6 bits or int8.
struct RowOfTile {
  uint32_t word[kWords];
};

uint32_t Word(const std::byte* p) { return LoadLe<uint32_t>(p); }

// Bit i of `bits`, 0 <= i < 4, into bit 4 of byte i.
uint32_t SpreadToBit4(uint32_t bits) { return ((bits * 0x00204081u) & kLowBits) << 4; }

// Blocks of 32: elements 0-15 are the low nibbles of 16 bytes, 16-31 the high ones.
void ReadNibbles32(const std::byte* src, RowOfTile* t) {
  for (uint32_t w = 0; w < 4; ++w) {
    t->word[w] = Word(src + 4 * w) & kLowNibbles;
    t->word[4 + w] = (Word(src + 4 * w) >> 4) & kLowNibbles;
  }
}

void AddHighBits32(const std::byte* src, RowOfTile* t) {
  const uint32_t high = Word(src);
  for (uint32_t w = 0; w < kWords; ++w) t->word[w] |= SpreadToBit4((high >> (4 * w)) & 15);
}

// Sub-block `sub` of a Q4_K or Q5_K block whose nibbles begin at `nibbles`.
void ReadSubBlock(const std::byte* nibbles, uint32_t sub, RowOfTile* t) {
  const std::byte* src = nibbles + sub / 2 * 32;
  const uint32_t shift = sub % 2 * 4;
  for (uint32_t w = 0; w < kWords; ++w) t->word[w] = (Word(src + 4 * w) >> shift) & kLowNibbles;
}

// Run `run` of 32 elements of a Q6_K block: 128 bytes of nibbles, then 64 of bit pairs.
void ReadQ6K(const std::byte* block, uint32_t run, RowOfTile* t) {
  const uint32_t half = run / 4, r = run % 4;
  const std::byte* low = block + half * 64 + r % 2 * 32;
  const std::byte* high = block + 128 + half * 32;
  for (uint32_t w = 0; w < kWords; ++w) {
    const uint32_t nibbles = (Word(low + 4 * w) >> (r / 2 * 4)) & kLowNibbles;
    t->word[w] = nibbles | (((Word(high + 4 * w) >> (2 * r)) & kLowPairs) << 4);
  }
}

// Elements of tile `sub` of `block`.
template <WeightFormat kFormat>
RowOfTile ReadTile(const std::byte* block, uint32_t sub) {
  RowOfTile t;
  if constexpr (kFormat == WeightFormat::kQ4_0) ReadNibbles32(block + 2, &t);
  if constexpr (kFormat == WeightFormat::kQ4_1) ReadNibbles32(block + 4, &t);
  if constexpr (kFormat == WeightFormat::kQ5_0) {
    ReadNibbles32(block + 6, &t);
    AddHighBits32(block + 2, &t);
  }
  if constexpr (kFormat == WeightFormat::kQ5_1) {
    ReadNibbles32(block + 8, &t);
    AddHighBits32(block + 4, &t);
  }
  if constexpr (kFormat == WeightFormat::kQ8_0) std::memcpy(t.word, block + 2, kTileElements);
  if constexpr (kFormat == WeightFormat::kQ4_K) ReadSubBlock(block + 16, sub, &t);
  if constexpr (kFormat == WeightFormat::kQ5_K) {
    ReadSubBlock(block + 48, sub, &t);
    for (uint32_t w = 0; w < kWords; ++w) t.word[w] |= ((Word(block + 16 + 4 * w) >> sub) & kLowBits) << 4;
  }
  if constexpr (kFormat == WeightFormat::kQ6_K) ReadQ6K(block, sub, &t);
  return t;
}

void PutWord(uint32_t word, std::byte* p) { std::memcpy(p, &word, sizeof(word)); }
void PutHalf(const std::byte* half, uint32_t row, std::byte* plane) { std::memcpy(plane + 2 * row, half, 2); }

// Line j of a tile: words 2j (low nibbles) and 2j + 1 (high ones).
void PutNibbles(const RowOfTile& t, uint32_t row, std::byte* values) {
  for (uint32_t line = 0; line < 4; ++line) {
    const uint32_t low = t.word[2 * line] & kLowNibbles, high = t.word[2 * line + 1] & kLowNibbles;
    PutWord(low | (high << 4), values + line * kLineBytes + 4 * row);
  }
}

void PutBytes(const RowOfTile& t, uint32_t row, std::byte* values) {
  for (uint32_t w = 0; w < kWords; ++w) PutWord(t.word[w], values + w * kLineBytes + 4 * row);
}

// Bit 4 of the bytes of word w goes to bit w of one word.
void PutOneHighBit(const RowOfTile& t, uint32_t row, std::byte* high) {
  uint32_t bits = 0;
  for (uint32_t w = 0; w < kWords; ++w) bits |= ((t.word[w] >> 4) & kLowBits) << w;
  PutWord(bits, high + 4 * row);
}

// Bits 4 and 5 of the bytes of word w go to bits 2 (w mod 4) and the next, in line w / 4.
void PutTwoHighBits(const RowOfTile& t, uint32_t row, std::byte* high) {
  for (uint32_t line = 0; line < 2; ++line) {
    uint32_t bits = 0;
    for (uint32_t w = 0; w < 4; ++w) bits |= ((t.word[4 * line + w] >> 4) & kLowPairs) << (2 * w);
    PutWord(bits, high + line * kLineBytes + 4 * row);
  }
}

// The planes of one panel, and how far apart their units are.
struct Target {
  std::byte* panel;
  PanelLayout layout;
  PlaneBytes unit;

  std::byte* values(uint64_t tile) const { return panel + layout.values + tile * unit.values; }
  std::byte* high(uint64_t tile) const { return panel + layout.high + tile * unit.high; }
  std::byte* scale(uint64_t tile) const { return panel + layout.scale + tile * unit.scale; }
  std::byte* min(uint64_t tile) const { return panel + layout.min + tile * unit.min; }
  std::byte* super(uint64_t block) const { return panel + layout.super + block * unit.super; }
  std::byte* super_min(uint64_t block) const { return panel + layout.super_min + block * unit.super_min; }
};

constexpr bool HasOneHighBit(WeightFormat f) {
  return f == WeightFormat::kQ5_0 || f == WeightFormat::kQ5_1 || f == WeightFormat::kQ5_K;
}

template <WeightFormat kFormat>
void PutTile(const RowOfTile& t, uint64_t tile, uint32_t row, const Target& to) {
  if constexpr (kFormat == WeightFormat::kQ8_0) {
    PutBytes(t, row, to.values(tile));
  } else {
    PutNibbles(t, row, to.values(tile));
  }
  if constexpr (HasOneHighBit(kFormat)) PutOneHighBit(t, row, to.high(tile));
  if constexpr (kFormat == WeightFormat::kQ6_K) PutTwoHighBits(t, row, to.high(tile));
}

// Scales of block `index` of a row; `block` has one tile, or eight.
template <WeightFormat kFormat>
void PutScales(const std::byte* block, uint64_t index, uint32_t row, const Target& to) {
  if constexpr (kFormat == WeightFormat::kQ4_K || kFormat == WeightFormat::kQ5_K) {
    const SixBitScales scales = UnpackSixBitScales(block + 4);
    for (uint32_t sub = 0; sub < kTilesPerSuper; ++sub) {
      to.scale(kTilesPerSuper * index + sub)[row] = static_cast<std::byte>(scales.scale[sub]);
      to.min(kTilesPerSuper * index + sub)[row] = static_cast<std::byte>(scales.min[sub]);
    }
    PutHalf(block, row, to.super(index));
    PutHalf(block + 2, row, to.super_min(index));
  } else if constexpr (kFormat == WeightFormat::kQ6_K) {
    for (uint32_t sub = 0; sub < 2 * kTilesPerSuper; ++sub) {
      to.scale(kTilesPerSuper * index)[kTileRows * sub + row] = block[192 + sub];
    }
    PutHalf(block + 208, row, to.super(index));
  } else {
    PutHalf(block, row, to.scale(index));
    if constexpr (kFormat == WeightFormat::kQ4_1 || kFormat == WeightFormat::kQ5_1) {
      PutHalf(block + 2, row, to.min(index));
    }
  }
}

template <WeightFormat kFormat>
void EncodeBlocks(const std::byte* src, uint64_t row_stride, uint32_t rows, uint64_t cols, const Target& to) {
  const WeightFormatTraits& traits = Traits(kFormat);
  const uint32_t tiles = traits.block_elements / kTileElements;  // a block
  for (uint64_t index = 0; index < cols / traits.block_elements; ++index) {
    for (uint32_t row = 0; row < rows; ++row) {
      const std::byte* block = src + row * row_stride + index * traits.block_bytes;
      PutScales<kFormat>(block, index, row, to);
      for (uint32_t sub = 0; sub < tiles; ++sub) {
        PutTile<kFormat>(ReadTile<kFormat>(block, sub), tiles * index + sub, row, to);
      }
    }
  }
}

// F32, F16 and BF16: a transposition of values of type T, tile by tile.
template <class T>
void EncodeFloats(const std::byte* src, uint64_t row_stride, uint32_t rows, uint64_t cols, std::byte* panel) {
  for (uint64_t first = 0; first < cols; first += kTileElements) {
    for (uint32_t row = 0; row < rows; ++row) {
      const std::byte* from = src + row * row_stride + first * sizeof(T);
      std::byte* to = panel + (kTileRows * first + row) * sizeof(T);
      for (uint32_t k = 0; k < kTileElements; ++k)
        std::memcpy(to + kTileRows * k * sizeof(T), from + k * sizeof(T), sizeof(T));
    }
  }
}

}  // namespace

void EncodePanel(WeightFormat format, const std::byte* src, uint64_t row_stride, uint32_t rows, uint64_t cols,
                 std::byte* panel) {
  ES_DCHECK(rows <= kTileRows && CanTile(format, cols));
  const Target to{panel, MakePanelLayout(format, cols), PlaneBytesOf(format)};
  std::memset(panel, 0, to.layout.bytes);
  switch (format) {
    case WeightFormat::kF32:
      return EncodeFloats<uint32_t>(src, row_stride, rows, cols, panel);
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return EncodeFloats<uint16_t>(src, row_stride, rows, cols, panel);
    case WeightFormat::kQ4_0:
      return EncodeBlocks<WeightFormat::kQ4_0>(src, row_stride, rows, cols, to);
    case WeightFormat::kQ4_1:
      return EncodeBlocks<WeightFormat::kQ4_1>(src, row_stride, rows, cols, to);
    case WeightFormat::kQ5_0:
      return EncodeBlocks<WeightFormat::kQ5_0>(src, row_stride, rows, cols, to);
    case WeightFormat::kQ5_1:
      return EncodeBlocks<WeightFormat::kQ5_1>(src, row_stride, rows, cols, to);
    case WeightFormat::kQ8_0:
      return EncodeBlocks<WeightFormat::kQ8_0>(src, row_stride, rows, cols, to);
    case WeightFormat::kQ4_K:
      return EncodeBlocks<WeightFormat::kQ4_K>(src, row_stride, rows, cols, to);
    case WeightFormat::kQ5_K:
      return EncodeBlocks<WeightFormat::kQ5_K>(src, row_stride, rows, cols, to);
    case WeightFormat::kQ6_K:
      return EncodeBlocks<WeightFormat::kQ6_K>(src, row_stride, rows, cols, to);
  }
}

}  // namespace estream
