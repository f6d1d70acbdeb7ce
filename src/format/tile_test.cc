// SPDX-License-Identifier: Apache-2.0
// Panels: encoding then decoding gives every value of the source, bit for bit, in the bytes the layout promises.
#include "format/tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "tests/random_blocks.h"
#include "tests/test_files.h"

namespace estream {
namespace {

// What a panel of `rows` source rows must decode to: element-major, absent rows zero.
std::vector<float> ExpectedPanel(WeightFormat format, const std::byte* src, uint32_t rows, uint64_t cols) {
  std::vector<float> expected(kTileRows * cols, 0.0f), row(cols);
  for (uint32_t r = 0; r < rows; ++r) {
    DequantizeRow(format, src + r * RowBytes(format, cols), row.data(), cols);
    for (uint64_t k = 0; k < cols; ++k) expected[kTileRows * k + r] = row[k];
  }
  return expected;
}

std::vector<std::byte> Encode(WeightFormat format, const std::byte* src, uint32_t rows, uint64_t cols) {
  const uint64_t bytes = MakePanelLayout(format, cols).bytes;
  std::vector<std::byte> panel(bytes + 64, std::byte{0xA5});
  EncodePanel(format, src, RowBytes(format, cols), rows, cols, panel.data());
  for (size_t i = bytes; i < panel.size(); ++i) EXPECT_EQ(panel[i], std::byte{0xA5}) << "written past the panel";
  panel.resize(bytes);
  return panel;
}

void ExpectDecodes(WeightFormat format, const std::byte* src, uint32_t rows, uint64_t cols) {
  const std::vector<float> expected = ExpectedPanel(format, src, rows, cols);
  const std::vector<std::byte> panel = Encode(format, src, rows, cols);
  std::vector<float> out(kTileRows * cols, -1.0f);
  DecodePanel(format, panel.data(), cols, 0, cols, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % kTileRows >= rows) {
      ASSERT_EQ(out[i], 0.0f) << "element " << i / kTileRows << " of absent row " << i % kTileRows;
    } else {
      ASSERT_EQ(std::memcmp(&out[i], &expected[i], 4), 0)
          << "element " << i / kTileRows << ", row " << i % kTileRows << ": " << out[i] << ", not " << expected[i];
    }
  }
}

TEST(Tile, DecodesToTheSourceBitForBit) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  for (const WeightFormat format : AllWeightFormats()) {
    SCOPED_TRACE(Traits(format).name);
    const uint64_t unit = std::max<uint64_t>(kTileElements, Traits(format).block_elements);
    for (const uint64_t units : {1, 2, 3, 7, 8, 9}) {  // odd K/32, and planes that end inside 128 bytes
      for (const uint32_t rows : {1u, 2u, 31u, 32u}) {
        SCOPED_TRACE(testing::Message() << rows << " rows of " << units * unit);
        ExpectDecodes(format, RandomBlocks(format, rows, units * unit, rng).data(), rows, units * unit);
      }
    }
  }
}

TEST(Tile, DecodesStoredBlocksBitForBit) {
  for (const WeightFormat format : AllWeightFormats()) {
    if (format == WeightFormat::kF32) continue;  // stored for the formats that need decoding
    SCOPED_TRACE(Traits(format).name);
    std::string name = Traits(format).name;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string blocks = ReadBinary(TestData("blocks/" + name + ".bin"));
    const std::string values = ReadBinary(TestData("blocks/" + name + ".f32"));
    const uint64_t cols = values.size() / sizeof(float);
    const std::vector<std::byte> panel = Encode(format, reinterpret_cast<const std::byte*>(blocks.data()), 1, cols);
    std::vector<float> out(kTileRows * cols);
    DecodePanel(format, panel.data(), cols, 0, cols, out.data());
    for (uint64_t k = 0; k < cols; ++k) {
      ASSERT_EQ(std::memcmp(&out[kTileRows * k], values.data() + 4 * k, 4), 0) << "element " << k;
    }
  }
}

TEST(Tile, DecodesAnyPartAlike) {
  std::mt19937 rng(7);
  for (const WeightFormat format : AllWeightFormats()) {
    SCOPED_TRACE(Traits(format).name);
    constexpr uint64_t kCols = 768;
    const std::vector<std::byte> panel = Encode(format, RandomBlocks(format, 32, kCols, rng).data(), 32, kCols);
    std::vector<float> whole(kTileRows * kCols), part(kTileRows * kCols);
    DecodePanel(format, panel.data(), kCols, 0, kCols, whole.data());
    for (const auto& [first, count] : {std::pair<uint64_t, uint64_t>{0, 0}, {0, 32}, {32, 64}, {224, 64}, {736, 32}}) {
      DecodePanel(format, panel.data(), kCols, first, count, part.data());
      EXPECT_EQ(std::memcmp(part.data(), whole.data() + kTileRows * first, 4 * kTileRows * count), 0) << first;
    }
  }
}

TEST(Tile, RowsMayBeApart) {
  std::mt19937 rng(8);
  const std::vector<std::byte> rows = RandomBlocks(WeightFormat::kQ5_1, 2, 64, rng);
  const uint64_t row_bytes = rows.size() / 2, stride = row_bytes + 5;
  std::vector<std::byte> apart(2 * stride);
  for (size_t r = 0; r < 2; ++r) std::memcpy(apart.data() + r * stride, rows.data() + r * row_bytes, row_bytes);
  std::vector<std::byte> panel(MakePanelLayout(WeightFormat::kQ5_1, 64).bytes);
  EncodePanel(WeightFormat::kQ5_1, apart.data(), stride, 2, 64, panel.data());
  EXPECT_EQ(panel, Encode(WeightFormat::kQ5_1, rows.data(), 2, 64));
}

TEST(Tile, NoRowsAreAllZero) {
  for (const WeightFormat format : AllWeightFormats()) {
    const std::vector<std::byte> panel = Encode(format, nullptr, 0, 256);
    EXPECT_EQ(std::count(panel.begin(), panel.end(), std::byte{0}), static_cast<ptrdiff_t>(panel.size()));
  }
}

struct SizeCase {
  WeightFormat format;
  double bits_a_weight;
};

TEST(Tile, BitsAWeight) {
  const SizeCase cases[] = {
      {WeightFormat::kQ4_0, 4.5},   {WeightFormat::kQ4_1, 5.0},    {WeightFormat::kQ5_0, 5.5},
      {WeightFormat::kQ5_1, 6.0},   {WeightFormat::kQ8_0, 8.5},    {WeightFormat::kQ4_K, 4.625},
      {WeightFormat::kQ5_K, 5.625}, {WeightFormat::kQ6_K, 6.5625}, {WeightFormat::kF16, 16},
      {WeightFormat::kBF16, 16},    {WeightFormat::kF32, 32},
  };
  ASSERT_EQ(std::size(cases), AllWeightFormats().size());
  for (const SizeCase& c : cases) {
    SCOPED_TRACE(Traits(c.format).name);
    EXPECT_EQ(static_cast<double>(MakePanelLayout(c.format, 2048).bytes), c.bits_a_weight * 2048 * 32 / 8);
    EXPECT_EQ(TiledBytes(c.format, 1024, 2048), 32 * MakePanelLayout(c.format, 2048).bytes);
    EXPECT_EQ(TiledBytes(c.format, 33, 256), 2 * MakePanelLayout(c.format, 256).bytes);
  }
}

TEST(Tile, PlanesAreAlignedInOrderAndApart) {
  for (const WeightFormat format : AllWeightFormats()) {
    for (const uint64_t cols : {32, 96, 256, 768, 2048}) {
      if (!CanTile(format, cols)) continue;
      SCOPED_TRACE(testing::Message() << Traits(format).name << " of " << cols);
      const PanelLayout l = MakePanelLayout(format, cols);
      EXPECT_EQ(l.values, 0u);
      EXPECT_EQ(l.bytes % kPlaneAlignment, 0u);
      uint64_t last = 0;
      for (const uint64_t plane : {l.high, l.scale, l.min, l.super, l.super_min}) {
        if (plane == PanelLayout::kNoPlane) continue;
        EXPECT_EQ(plane % kPlaneAlignment, 0u);
        EXPECT_GT(plane, last);
        last = plane;
      }
      EXPECT_GT(l.bytes, last);
    }
  }
}

TEST(Tile, WhatCanBeTiled) {
  EXPECT_FALSE(CanTile(WeightFormat::kF32, 0));
  EXPECT_FALSE(CanTile(WeightFormat::kF32, 31));
  EXPECT_TRUE(CanTile(WeightFormat::kF32, 32));
  EXPECT_FALSE(CanTile(WeightFormat::kF32, 33));
  EXPECT_TRUE(CanTile(WeightFormat::kQ4_0, 96));
  EXPECT_FALSE(CanTile(WeightFormat::kQ4_0, 80));
  EXPECT_FALSE(CanTile(WeightFormat::kQ4_K, 128));
  EXPECT_TRUE(CanTile(WeightFormat::kQ6_K, 768));
}

// Places of bits, written out by hand from the description of the layout.
TEST(Tile, BytesLieWhereTheLayoutSays) {
  std::vector<std::byte> row(RowBytes(WeightFormat::kQ4_0, 64), std::byte{0});
  // Second block, element 13 (low nibble of byte 13) = 9 and element 21 (high nibble of byte 5) = 6; d = 1.
  row[18 + 1] = std::byte{0x3C};
  row[18 + 2 + 13] = std::byte{0x09};
  row[18 + 2 + 5] = std::byte{0x60};
  std::vector<std::byte> rows(3 * row.size(), std::byte{0});
  std::copy(row.begin(), row.end(), rows.begin() + 2 * static_cast<ptrdiff_t>(row.size()));
  const std::vector<std::byte> panel = Encode(WeightFormat::kQ4_0, rows.data(), 3, 64);
  const PanelLayout layout = MakePanelLayout(WeightFormat::kQ4_0, 64);
  // Element 13 = 8 * 1 + 4 + 1: line 1, high nibble, byte 4 * row + 1. Element 21 = 8 * 2 + 4 + 1: line 2, likewise.
  EXPECT_EQ(panel[512 + 128 * 1 + 4 * 2 + 1], std::byte{0x90});
  EXPECT_EQ(panel[512 + 128 * 2 + 4 * 2 + 1], std::byte{0x60});
  EXPECT_EQ(panel[layout.scale + 64 + 2 * 2 + 1], std::byte{0x3C});
  EXPECT_EQ(std::count(panel.begin(), panel.end(), std::byte{0}), static_cast<ptrdiff_t>(panel.size()) - 3);
}

}  // namespace
}  // namespace estream
