// SPDX-License-Identifier: Apache-2.0
// Logits, gating and choice against double, on every target.
#include "kernels/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/each_target.h"
#include "tests/random.h"

namespace estream {
namespace {

struct RouterShape {
  uint32_t rows, hidden, experts;
};

TEST(RouterLogits, EqualDoubleAndDoNotDependOnTheRowsOfACall) {
  for (const RouterShape& s :
       {RouterShape{0, 64, 8}, {1, 1, 1}, {1, 64, 4}, {2, 33, 5}, {3, 64, 7}, {5, 100, 64}, {9, 2048, 128}}) {
    Random random(s.hidden + s.experts);
    const size_t stride = s.hidden + 3;
    const std::vector<float> x = random.Floats(s.rows * stride);
    const std::vector<float> w = random.Floats(size_t{s.experts} * s.hidden);
    std::vector<float> first;
    ForEachTarget([&] {
      std::vector<float> logits(size_t{s.rows} * s.experts + 1, 77.0f);
      RouterLogits(x.data(), stride, s.rows, w.data(), s.hidden, s.experts, logits.data());
      EXPECT_EQ(logits.back(), 77.0f);
      for (uint32_t r = 0; r < s.rows; ++r) {
        for (uint32_t e = 0; e < s.experts; ++e) {
          double expected = 0;
          for (uint32_t i = 0; i < s.hidden; ++i) expected += double{x[r * stride + i]} * w[size_t{e} * s.hidden + i];
          ASSERT_NEAR(logits[r * s.experts + e], expected, 1e-6 * (1 + std::sqrt(s.hidden))) << r << " " << e;
        }
        std::vector<float> alone(s.experts);
        RouterLogits(x.data() + r * stride, stride, 1, w.data(), s.hidden, s.experts, alone.data());
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), logits.begin() + r * s.experts));
      }
      if (first.empty()) first = logits;
      EXPECT_EQ(logits, first);
    });
  }
}

TEST(Gating, SoftmaxAndSigmoidEqualDouble) {
  for (const uint32_t n : {1, 2, 7, 8, 9, 31, 32, 33, 64, 128}) {
    Random random(n);
    const std::vector<float> x = random.Floats(n, -20, 20);
    const double max = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (float v : x) sum += std::exp(v - max);
    std::vector<float> first;
    ForEachTarget([&] {
      std::vector<float> soft = x, sigmoid = x;
      Softmax(soft.data(), n);
      Sigmoid(sigmoid.data(), n);
      for (uint32_t i = 0; i < n; ++i) {
        const double p = std::exp(x[i] - max) / sum, q = 1 / (1 + std::exp(-double{x[i]}));
        ASSERT_NEAR(soft[i], p, 4e-6 * p);  // x - max, of size 40, is rounded to 2e-6 before exp
        ASSERT_NEAR(sigmoid[i], q, 1e-6 * q);
      }
      soft.insert(soft.end(), sigmoid.begin(), sigmoid.end());
      if (first.empty()) first = soft;
      EXPECT_EQ(soft, first);
    });
  }
}

TEST(TopK, IsAStableSortByFallingScore) {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    const uint32_t n = 1 + random.Below(70), k = 1 + random.Below(n);
    std::vector<float> scores(n);
    for (float& s : scores) s = static_cast<float>(random.Below(9)) - 4;  // many ties
    std::vector<uint32_t> expected(n), chosen(k);
    std::iota(expected.begin(), expected.end(), 0u);
    std::stable_sort(expected.begin(), expected.end(), [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
    expected.resize(k);
    TopK(scores.data(), n, k, chosen.data());
    ASSERT_EQ(chosen, expected) << "round " << round << " of seed " << random.seed();
  }
}

}  // namespace
}  // namespace estream
