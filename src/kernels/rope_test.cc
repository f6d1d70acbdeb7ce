// SPDX-License-Identifier: Apache-2.0
// Rotations against double, both styles, whole and partial heads, on every target.
#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/each_target.h"
#include "tests/random.h"

namespace estream {
namespace {

struct RopeShape {
  uint32_t heads, head_dim, pairs, position;
};

constexpr RopeShape kShapes[] = {{1, 2, 1, 0},     {1, 2, 1, 1},       {2, 12, 6, 3},
                                 {3, 16, 8, 100},  {2, 20, 7, 9},      {4, 64, 32, 65},
                                 {2, 128, 64, 31}, {1, 128, 32, 4095}, {2, 96, 48, 16383}};

void ExpectRotated(const RopeShape& s, bool halves) {
  Random random(s.head_dim * 1000 + s.pairs);
  const std::vector<float> x = random.Floats(size_t{s.heads} * s.head_dim);
  std::vector<float> cos(s.pairs), sin(s.pairs);
  std::vector<double> frequencies(s.pairs);
  RopeFrequencies(s.pairs, 10000, 2, frequencies.data());
  RopeAngles(s.position, s.pairs, frequencies.data(), cos.data(), sin.data());
  std::vector<float> first;
  ForEachTarget([&] {
    std::vector<float> y = x;
    (halves ? RotateHalves : RotateAdjacent)(y.data(), s.heads, s.head_dim, s.pairs, cos.data(), sin.data());
    std::vector<double> expected(x.begin(), x.end());
    for (uint32_t head = 0; head < s.heads; ++head) {
      double* v = expected.data() + size_t{head} * s.head_dim;
      for (uint32_t i = 0; i < s.pairs; ++i) {
        const double angle = s.position * std::pow(10000.0, -2.0 * i / (2.0 * s.pairs)) / 2;
        double& a = v[halves ? i : 2 * i];
        double& b = v[halves ? i + s.pairs : 2 * i + 1];
        const double rotated = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = rotated;
      }
    }
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], expected[i], 4e-7) << s.head_dim << " " << i;
    if (first.empty()) first = y;
    EXPECT_EQ(y, first);
  });
}

TEST(Rope, HalvesEqualDouble) {
  for (const RopeShape& s : kShapes) ExpectRotated(s, true);
}

TEST(Rope, AdjacentEqualsDouble) {
  for (const RopeShape& s : kShapes) ExpectRotated(s, false);
}

}  // namespace
}  // namespace estream
