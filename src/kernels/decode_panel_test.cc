// SPDX-License-Identifier: Apache-2.0
// SIMD decoding against the scalar decoder, bit for bit, on every target.
#include "kernels/decode_panel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "format/tile.h"
#include "kernels/each_target.h"
#include "tests/random_blocks.h"

namespace estream {
namespace {

std::vector<std::byte> RandomPanel(WeightFormat format, uint32_t rows, uint64_t cols, std::mt19937& rng) {
  std::vector<std::byte> panel(MakePanelLayout(format, cols).bytes);
  EncodePanel(format, RandomBlocks(format, rows, cols, rng).data(), RowBytes(format, cols), rows, cols, panel.data());
  return panel;
}

void ExpectAgrees(WeightFormat format, const std::vector<std::byte>& panel, uint64_t cols, uint64_t first,
                  uint64_t count) {
  SCOPED_TRACE(testing::Message() << Traits(format).name << " of " << cols << ", " << count << " from " << first);
  const size_t n = kTileRows * count;
  std::vector<float> expected(n);
  DecodePanel(format, panel.data(), cols, first, count, expected.data());
  ForEachTarget([&] {
    std::vector<float> out(n + 1, -7.0f);
    DecodePanelF32(format, panel.data(), cols, first, count, out.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(std::memcmp(&out[i], &expected[i], 4), 0) << "element " << first + i / kTileRows << ", row "
                                                          << i % kTileRows << ": " << out[i] << ", not " << expected[i];
    }
    EXPECT_EQ(out[n], -7.0f) << "written past the end";
  });
}

TEST(DecodePanelF32, AgreesWithTheScalarDecoderBitForBit) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  for (const WeightFormat format : AllWeightFormats()) {
    for (const uint64_t cols : {32, 96, 256, 768, 2304}) {
      if (!CanTile(format, cols)) continue;
      for (const uint32_t rows : {1u, 31u, 32u})
        ExpectAgrees(format, RandomPanel(format, rows, cols, rng), cols, 0, cols);
    }
  }
}

TEST(DecodePanelF32, DecodesAnyPart) {
  std::mt19937 rng(11);
  constexpr uint64_t kCols = 768;
  for (const WeightFormat format : AllWeightFormats()) {
    const std::vector<std::byte> panel = RandomPanel(format, 32, kCols, rng);
    for (const auto& [first, count] : {std::pair<uint64_t, uint64_t>{0, 0}, {0, 32}, {32, 96}, {224, 64}, {736, 32}}) {
      ExpectAgrees(format, panel, kCols, first, count);
    }
  }
}

// Every finite fp16, subnormal and negative ones too, as a scale and as a value.
TEST(DecodePanelF32, EveryScaleIsExact) {
  for (const WeightFormat format :
       {WeightFormat::kF16, WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ4_K}) {
    const uint64_t halves = format == WeightFormat::kF16 ? 2048 : 64;  // a row: one per value, or one per block
    const uint64_t elements = Traits(format).block_elements;
    const uint64_t cols = halves * elements;
    for (uint32_t next = 0; next < 0x10000;) {
      std::vector<std::byte> rows(kTileRows * RowBytes(format, cols), std::byte{0x96});
      for (size_t at = 0; at < rows.size(); at += Traits(format).block_bytes) {
        while ((next & 0x7C00u) == 0x7C00u) ++next;
        const auto half = static_cast<uint16_t>(next++);
        std::memcpy(rows.data() + at, &half, 2);
      }
      std::vector<std::byte> panel(MakePanelLayout(format, cols).bytes);
      EncodePanel(format, rows.data(), RowBytes(format, cols), kTileRows, cols, panel.data());
      ExpectAgrees(format, panel, cols, 0, cols);
    }
  }
}

TEST(DecodePanelF32, PanelAndOutputNeedNoAlignment) {
  std::mt19937 rng(12);
  for (const WeightFormat format : AllWeightFormats()) {
    SCOPED_TRACE(Traits(format).name);
    constexpr uint64_t kCols = 256;
    const std::vector<std::byte> panel = RandomPanel(format, 32, kCols, rng);
    std::vector<std::byte> moved(panel.size() + 1);
    std::memcpy(moved.data() + 1, panel.data(), panel.size());
    std::vector<float> expected(kTileRows * kCols), out(kTileRows * kCols + 1);
    DecodePanel(format, panel.data(), kCols, 0, kCols, expected.data());
    DecodePanelF32(format, moved.data() + 1, kCols, 0, kCols, out.data() + 1);
    EXPECT_EQ(std::memcmp(expected.data(), out.data() + 1, 4 * expected.size()), 0);
  }
}

}  // namespace
}  // namespace estream
