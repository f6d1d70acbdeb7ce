// SPDX-License-Identifier: Apache-2.0
// The online softmax against a softmax over all keys in double.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/each_target.h"
#include "tests/random.h"

namespace estream {
namespace {

constexpr size_t kWidth = 24;
constexpr float kScale = 0.25f;

struct Attended {
  std::vector<float> out;  // not yet divided by the sum
  float sum = 0;
  std::vector<float> probabilities;  // of the last block
};

// One row over `keys` keys whose scores and values are given, block by block, starting as row `place` of a call.
Attended Attend(const std::vector<float>& scores, const std::vector<float>& values, uint32_t keys, uint32_t place) {
  const uint32_t rows = place + 1;
  std::vector<float> max(rows, -std::numeric_limits<float>::infinity()), sum(rows, 0.0f), out(rows * kWidth, 0.0f);
  std::vector<float> block(size_t{rows} * kKeyBlock);
  for (uint32_t first = 0; first < keys; first += kKeyBlock) {
    const uint32_t visible = std::min(kKeyBlock, keys - first);
    const std::vector<uint32_t> all_visible(rows, visible);
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t k = 0; k < kKeyBlock; ++k) {
        // What is masked may hold anything.
        block[r * kKeyBlock + k] = k < visible ? scores[first + k] : std::numeric_limits<float>::quiet_NaN();
      }
    }
    SoftmaxBlock(block.data(), rows, all_visible.data(), kScale, max.data(), sum.data(), out.data(), kWidth, kWidth);
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t k = 0; k < kKeyBlock; ++k) {
        const float p = block[r * kKeyBlock + k];
        for (size_t i = 0; i < kWidth; ++i) {
          out[r * kWidth + i] = std::fma(p, k < visible ? values[(first + k) * kWidth + i] : 0.0f, out[r * kWidth + i]);
        }
      }
    }
  }
  return {{out.end() - kWidth, out.end()}, sum.back(), {block.end() - kKeyBlock, block.end()}};
}

TEST(SoftmaxBlock, EqualsSoftmaxOverAllKeys) {
  for (const uint32_t keys : {1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000}) {
    Random random(keys);
    std::vector<float> scores = random.Floats(keys, -40, 40);
    const std::vector<float> values = random.Floats(keys * kWidth);
    double max = -1e300;
    for (float s : scores) max = std::max(max, double{kScale} * s);
    double sum = 0;
    std::vector<double> expected(kWidth);
    for (uint32_t k = 0; k < keys; ++k) {
      const double p = std::exp(double{kScale} * scores[k] - max);
      sum += p;
      for (size_t i = 0; i < kWidth; ++i) expected[i] += p * values[k * kWidth + i];
    }
    std::vector<float> first;
    ForEachTarget([&] {
      const Attended alone = Attend(scores, values, keys, 0);
      for (size_t i = 0; i < kWidth; ++i) ASSERT_NEAR(alone.out[i] / alone.sum, expected[i] / sum, 2e-6) << keys;
      for (uint32_t k = (keys - 1) % kKeyBlock + 1; k < kKeyBlock; ++k) ASSERT_EQ(alone.probabilities[k], 0.0f);
      const Attended third = Attend(scores, values, keys, 2);
      EXPECT_EQ(third.out, alone.out);
      EXPECT_EQ(third.sum, alone.sum);
      if (first.empty()) first = alone.out;
      EXPECT_EQ(alone.out, first);
    });
  }
}

TEST(SoftmaxBlock, RowsMaySeeDifferentNumbersOfKeys) {
  ForEachTarget([] {
    std::vector<float> scores(3 * kKeyBlock, 1.0f), max(3, -std::numeric_limits<float>::infinity()), sum(3), out(24);
    const uint32_t visible[] = {1, 64, 13};
    SoftmaxBlock(scores.data(), 3, visible, 1.0f, max.data(), sum.data(), out.data(), 8, 8);
    EXPECT_EQ(sum, (std::vector<float>{1, 64, 13}));
    for (uint32_t r = 0; r < 3; ++r) {
      for (uint32_t k = 0; k < kKeyBlock; ++k) EXPECT_EQ(scores[r * kKeyBlock + k], k < visible[r] ? 1.0f : 0.0f);
    }
  });
}

}  // namespace
}  // namespace estream
