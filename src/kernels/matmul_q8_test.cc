// SPDX-License-Identifier: Apache-2.0
// Integer products against a scalar twin bit for bit, on every target, and against the float product within bounds.
#include "kernels/matmul_q8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "format/tile.h"
#include "format/tile_planes.h"
#include "kernels/each_target.h"
#include "tests/random.h"
#include "tests/random_blocks.h"

namespace estream {
namespace {

std::vector<WeightFormat> Q8Formats() {
  std::vector<WeightFormat> formats;
  for (const WeightFormat format : AllWeightFormats()) {
    if (HasQ8(format)) formats.push_back(format);
  }
  return formats;
}

// One panel of random weights and random quantised rows.
struct Q8Operands {
  Q8Operands(WeightFormat f, uint32_t row_count, uint64_t cols, Random& random)
      : format(f), panel(MakePanelLayout(f, cols).bytes), x(random.Floats(row_count * cols)) {
    std::mt19937 rng(static_cast<uint32_t>(random.Bits()));
    weights = RandomBlocks(f, kTileRows, cols, rng);
    EncodePanel(f, weights.data(), RowBytes(f, cols), kTileRows, cols, panel.data());
    Quantize(row_count, cols);
  }
  void Quantize(uint32_t row_count, uint64_t cols) {
    values.assign(QuantizedValueBytes(row_count, cols), 0);
    blocks.assign(row_count * (cols / 32), {});
    a = {row_count, cols, values.data(), blocks.data()};
    for (uint32_t row = 0; row < row_count; ++row) QuantizeRow(x.data() + row * cols, row, a);
  }
  std::vector<float> Product(uint32_t first_row, uint32_t rows, size_t c_stride = 32,
                             Q8Path path = Q8Path::kFastest) const {
    std::vector<float> c(rows * c_stride + 1, -5.0f);
    MatMulPanelQ8(format, panel.data(), a, first_row, rows, c.data(), c_stride, panel, path);
    EXPECT_EQ(c.back(), -5.0f) << "written past the end";
    c.pop_back();
    return c;
  }

  WeightFormat format;
  std::vector<std::byte> weights, panel;
  std::vector<float> x;
  std::vector<int8_t> values;
  std::vector<ActivationBlock> blocks;
  QuantizedRows a;
};

// The contract, one output at a time.
float Twin(const Q8Operands& o, uint32_t row, uint32_t output) {
  float c = 0.0f;
  for (uint64_t t = 0; t < o.a.cols / 32; ++t) {
    const TileRow w = ReadTileRow(o.format, o.panel.data(), o.a.cols, t, output);
    const uint64_t at = t * o.a.rows + row;
    const bool centred = o.format == WeightFormat::kQ5_1 || o.format == WeightFormat::kQ5_K;
    const int offset = centred ? 16 : 0;
    int64_t sum = 0;
    for (int i = 0; i < 32; ++i) sum += int64_t{w.factor[i / 16]} * (w.q[i] - offset) * o.values[32 * at + i];
    const float scale = w.scale * o.blocks[at].scale;
    c = std::fma(scale, static_cast<float>(sum), c);
    if (w.has_min) c = std::fma(static_cast<float>(offset) * w.scale + w.min, o.blocks[at].scaled_sum, c);
  }
  return c;
}

void ExpectTwin(const Q8Operands& o) {
  std::vector<float> expected(o.a.rows * 32);
  for (uint32_t row = 0; row < o.a.rows; ++row) {
    for (uint32_t n = 0; n < 32; ++n) expected[32 * row + n] = Twin(o, row, n);
  }
  ForEachTarget([&] {
    for (const Q8Path path : {Q8Path::kStored, Q8Path::kPrepared}) {
      const std::vector<float> c = o.Product(0, o.a.rows, 32, path);
      for (size_t i = 0; i < c.size(); ++i) {
        ASSERT_EQ(std::memcmp(&c[i], &expected[i], 4), 0)
            << "path " << static_cast<int>(path) << ", row " << i / 32 << ", output " << i % 32 << ": " << c[i]
            << ", not " << expected[i];
      }
    }
  });
}

TEST(MatMulPanelQ8, IsItsScalarTwinBitForBitOnEveryTarget) {
  Random random(std::random_device{}());
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  for (const WeightFormat format : Q8Formats()) {
    for (const uint64_t cols : {32, 96, 256, 768}) {
      if (!CanTile(format, cols)) continue;
      for (const uint32_t rows : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 13u, 33u, 95u, 96u, 97u, 200u}) {
        if (rows > 33 && cols > 256) continue;  // the twin is slow
        SCOPED_TRACE(testing::Message() << Traits(format).name << ", " << rows << " rows of " << cols);
        ExpectTwin(Q8Operands(format, rows, cols, random));
      }
    }
  }
}

// Bytes of the fp16 scales and mins in a block.
std::vector<size_t> ScaleOffsets(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ6_K:
      return {208};
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ5_0:
    case WeightFormat::kQ8_0:
      return {0};
    default:
      return {0, 2};
  }
}

// The largest sums there are: all weights and activations at the ends of their ranges.
TEST(MatMulPanelQ8, ExtremesDoNotOverflow) {
  Random random(31);
  constexpr uint64_t kCols = 256;
  for (const WeightFormat format : Q8Formats()) {
    for (const auto weight_byte : {0x00, 0xFF, 0x7F, 0x80}) {
      SCOPED_TRACE(testing::Message() << Traits(format).name << ", bytes " << weight_byte);
      Q8Operands o(format, 5, kCols, random);
      std::fill(o.weights.begin(), o.weights.end(), static_cast<std::byte>(weight_byte));
      for (size_t at = 0; at < o.weights.size(); at += Traits(format).block_bytes) {
        const uint16_t sixteenth = 0x2C00;
        for (const size_t i : ScaleOffsets(format)) std::memcpy(&o.weights[at + i], &sixteenth, 2);
      }
      EncodePanel(format, o.weights.data(), RowBytes(format, kCols), kTileRows, kCols, o.panel.data());
      for (const float sign : {1.0f, -1.0f}) {
        std::fill(o.x.begin(), o.x.end(), sign);
        o.Quantize(5, kCols);
        ExpectTwin(o);
      }
    }
  }
}

// Row counts on both sides of every choice between the paths.
TEST(MatMulPanelQ8, BitsDoNotDependOnTheNumberOfRows) {
  Random random(35);
  for (const WeightFormat format : Q8Formats()) {
    SCOPED_TRACE(Traits(format).name);
    const Q8Operands o(format, 70, 256, random);
    ForEachTarget([&] {
      const std::vector<float> all = o.Product(0, 70);
      for (uint32_t rows = 1; rows < 70; ++rows) {
        const std::vector<float> some = o.Product(0, rows);
        ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0) << rows << " rows";
      }
    });
  }
}

TEST(MatMulPanelQ8, RowsDoNotDependOnTheirCompany) {
  Random random(32);
  for (const WeightFormat format : Q8Formats()) {
    SCOPED_TRACE(Traits(format).name);
    const Q8Operands o(format, 130, 256, random);
    ForEachTarget([&] {
      const std::vector<float> all = o.Product(0, 130);
      for (const auto& [first, count] :
           {std::pair<uint32_t, uint32_t>{0, 1}, {129, 1}, {3, 5}, {60, 8}, {1, 100}, {95, 35}}) {
        const std::vector<float> some = o.Product(first, count, 48);
        for (uint32_t r = 0; r < count; ++r) {
          ASSERT_EQ(std::memcmp(&some[48 * r], &all[32 * (first + r)], 4 * 32), 0) << first << " + " << r;
          EXPECT_EQ(some[48 * r + 32], -5.0f) << "written beside the panel";
        }
      }
    });
  }
}

// What 8 bits cost: each activation is off by at most half a step of its block.
TEST(MatMulPanelQ8, IsCloseToTheFloatProduct) {
  Random random(33);
  constexpr uint64_t kCols = 512;
  for (const WeightFormat format : Q8Formats()) {
    SCOPED_TRACE(Traits(format).name);
    const Q8Operands o(format, 3, kCols, random);
    const std::vector<float> c = o.Product(0, 3);
    std::vector<float> w(kTileRows * kCols);
    DecodePanel(format, o.panel.data(), kCols, 0, kCols, w.data());
    for (uint32_t row = 0; row < 3; ++row) {
      for (uint32_t n = 0; n < 32; ++n) {
        double sum = 0, bound = 0;
        for (uint64_t k = 0; k < kCols; ++k) {
          const ActivationBlock& block = o.blocks[k / 32 * 3 + row];
          sum += double{o.x[row * kCols + k]} * w[kTileRows * k + n];
          bound += std::abs(double{w[kTileRows * k + n]}) * block.scale * 0.5001;
        }
        // Scales and mins that nearly cancel leave float roundings of their own size, a few in each block.
        double rounding = 0;
        for (uint64_t t = 0; t < kCols / 32; ++t) {
          const TileRow r = ReadTileRow(format, o.panel.data(), kCols, t, n);
          const double factor = std::max(std::abs(r.factor[0]), std::abs(r.factor[1]));
          const double largest = 128 * factor * std::abs(double{r.scale}) + std::abs(double{r.min});
          rounding += 32 * 127 * largest * o.blocks[t * 3 + row].scale * 0x1p-24 * static_cast<double>(kCols / 32);
        }
        ASSERT_NEAR(c[32 * row + n], sum, bound + rounding) << row << ", " << n;
      }
    }
  }
}

TEST(MatMulPanelQ8, NanStaysNan) {
  Random random(34);
  for (const WeightFormat format : Q8Formats()) {
    Q8Operands o(format, 2, 256, random);
    o.x[40] = std::nanf("");
    o.Quantize(2, 256);
    ForEachTarget([&] {
      const std::vector<float> c = o.Product(0, 2);
      for (uint32_t n = 0; n < 32; ++n) {
        EXPECT_TRUE(std::isnan(c[n]));
        EXPECT_FALSE(std::isnan(c[32 + n]));
      }
    });
  }
}

}  // namespace
}  // namespace estream
