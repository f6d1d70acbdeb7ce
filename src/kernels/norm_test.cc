// SPDX-License-Identifier: Apache-2.0
// RMS norm against double, on every target, in place and not.
#include "kernels/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/each_target.h"
#include "tests/random.h"

namespace estream {
namespace {

constexpr float kEpsilon = 1e-5f;

std::vector<double> Expected(const std::vector<float>& x, const std::vector<float>& weight) {
  double squares = 0;
  for (float v : x) squares += double{v} * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + double{kEpsilon});
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
  return out;
}

TEST(RmsNorm, EqualsDoubleOnEveryTargetWithTheSameBits) {
  for (const size_t n : {1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 2048, 4097}) {
    Random random(n);
    const std::vector<float> x = random.Floats(n, -3, 3);
    const std::vector<float> weight = random.Floats(n, 0, 2);
    const std::vector<double> expected = Expected(x, weight);
    std::vector<float> first;
    ForEachTarget([&] {
      std::vector<float> out(n + 1, 77.0f);
      RmsNorm(x.data(), weight.data(), n, kEpsilon, out.data());
      // Lane sums of n / 8 terms, a square root, a division and two products: a few rounding errors of 6e-8.
      for (size_t i = 0; i < n; ++i) ASSERT_NEAR(out[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << n;
      EXPECT_EQ(out[n], 77.0f) << "written beyond " << n;
      std::vector<float> in_place = x;
      RmsNorm(in_place.data(), weight.data(), n, kEpsilon, in_place.data());
      out.resize(n);
      EXPECT_EQ(in_place, out);
      if (first.empty()) first = out;
      EXPECT_EQ(out, first);
    });
  }
}

TEST(RmsNorm, ZerosStayZeros) {
  const std::vector<float> x(33, 0.0f), weight(33, 1.0f);
  std::vector<float> out(33, 1.0f);
  RmsNorm(x.data(), weight.data(), x.size(), kEpsilon, out.data());
  EXPECT_EQ(out, x);
}

}  // namespace
}  // namespace estream
