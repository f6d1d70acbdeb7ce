// SPDX-License-Identifier: Apache-2.0
// Quantised activations: against the definition in plain arithmetic, the same bits on every target, edges of the range.
#include "kernels/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/each_target.h"
#include "tests/random.h"

namespace estream {
namespace {

struct Quantized {
  Quantized(uint32_t rows, uint64_t cols)
      : values(QuantizedValueBytes(rows, cols), 99),
        blocks(rows * (cols / 32)),
        view{rows, cols, values.data(), blocks.data()} {}
  std::vector<int8_t> values;
  std::vector<ActivationBlock> blocks;
  QuantizedRows view;
};

int Low(int32_t sums) { return static_cast<int16_t>(sums & 0xFFFF); }
int High(int32_t sums) { return static_cast<int16_t>(static_cast<uint32_t>(sums) >> 16); }

// Checks one block against its definition.
void ExpectBlock(const float* x, const int8_t* q, const ActivationBlock& block) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[i]));
  EXPECT_EQ(block.scale, largest / 127.0f);
  int sum = 0, low[2] = {0, 0}, high[2] = {0, 0};
  for (int i = 0; i < 32; ++i) {
    // nearbyint rounds ties to even in the default mode.
    ASSERT_EQ(q[i], static_cast<int>(std::nearbyint(x[i] * (127.0f / largest)))) << i;
    ASSERT_LE(std::abs(q[i]), 127);
    sum += q[i];
    (i % 4 < 2 ? low : high)[i / 16] += q[i];
  }
  EXPECT_EQ(block.scaled_sum, block.scale * static_cast<float>(sum));
  EXPECT_EQ(Low(block.first_pair_sums), low[0]);
  EXPECT_EQ(High(block.first_pair_sums), high[0]);
  EXPECT_EQ(Low(block.second_pair_sums), low[1]);
  EXPECT_EQ(High(block.second_pair_sums), high[1]);
  EXPECT_EQ(Low(block.pair_sums), low[0] + low[1]);
  EXPECT_EQ(High(block.pair_sums), high[0] + high[1]);
}

TEST(QuantizeRow, FollowsItsDefinitionOnEveryTarget) {
  Random random(std::random_device{}());
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  for (const uint32_t rows : {1u, 3u}) {
    for (const uint64_t cols : {32, 96, 1024}) {
      std::vector<float> x = random.Floats(rows * cols, -3, 5);
      for (float& v : x) v *= std::exp2(random.Uniform(-20, 20));
      ForEachTarget([&] {
        Quantized out(rows, cols);
        for (uint32_t row = 0; row < rows; ++row) QuantizeRow(x.data() + row * cols, row, out.view);
        for (uint64_t b = 0; b < cols / 32; ++b) {
          for (uint32_t row = 0; row < rows; ++row) {
            SCOPED_TRACE(testing::Message() << "row " << row << ", block " << b);
            const uint64_t at = b * rows + row;
            ExpectBlock(x.data() + row * cols + 32 * b, out.values.data() + 32 * at, out.blocks[at]);
          }
        }
      });
    }
  }
}

TEST(QuantizeRow, TiesGoToEven) {
  // The largest is 127, so that values are their own quants.
  std::vector<float> x(32, 0.0f);
  const float values[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, 0.49999997f, -0.49999997f};
  const int expected[] = {127, 0, 2, 2, 0, -2, -2, 126, 0, 0};
  std::copy(std::begin(values), std::end(values), x.begin());
  ForEachTarget([&] {
    Quantized out(1, 32);
    QuantizeRow(x.data(), 0, out.view);
    for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(out.values[i], expected[i]) << values[i];
  });
}

TEST(QuantizeRow, ExtremesOfTheRange) {
  struct Case {
    float value;
    float scale;
    int quant;
  };
  constexpr float kMax = std::numeric_limits<float>::max();
  const Case cases[] = {
      {0.0f, 0.0f, 0},
      {-0.0f, 0.0f, 0},
      {std::numeric_limits<float>::denorm_min(), 0.0f, 0},
      {0x1p-101f, 0.0f, 0},
      {0x1p-100f, 0x1p-100f / 127, 127},
      {-0x1p-100f, 0x1p-100f / 127, -127},
      {kMax, kMax / 127, 127},
      {-kMax, kMax / 127, -127},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.value);
    const std::vector<float> x(32, c.value);
    ForEachTarget([&] {
      Quantized out(1, 32);
      QuantizeRow(x.data(), 0, out.view);
      EXPECT_EQ(out.blocks[0].scale, c.scale);
      for (const int8_t q : out.values) EXPECT_EQ(q, c.quant);
    });
  }
}

TEST(QuantizeRow, NothingThatIsNotFiniteIsLost) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t place : {0, 15, 16, 31}) {
      std::vector<float> x(64, 1.0f);
      x[place] = bad;
      ForEachTarget([&] {
        Quantized out(1, 64);
        QuantizeRow(x.data(), 0, out.view);
        EXPECT_TRUE(std::isnan(out.blocks[0].scale));
        EXPECT_TRUE(std::isnan(out.blocks[0].scaled_sum));
        EXPECT_EQ(out.blocks[1].scale, 1.0f / 127);  // other blocks do not notice
      });
    }
  }
}

}  // namespace
}  // namespace estream
