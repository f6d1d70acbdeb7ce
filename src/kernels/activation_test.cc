// SPDX-License-Identifier: Apache-2.0
// exp, SwiGLU and sums against double, on every target.
#include "kernels/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/each_target.h"
#include "tests/random.h"

namespace estream {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Exp, IsWithinTwoUnitsOfDouble) {
  std::vector<float> x;
  for (int i = -87 * 4096; i <= 88 * 4096; i += 7) x.push_back(static_cast<float>(i) / 4096);
  for (int i = -2000; i <= 2000; ++i) x.push_back(static_cast<float>(i) * 1e-4f);
  std::vector<float> first;
  ForEachTarget([&] {
    std::vector<float> y(x.size());
    Exp(x.data(), x.size(), y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(double{x[i]});
      ASSERT_NEAR(y[i] / expected, 1.0, 2 * 0x1p-23) << x[i];
    }
    if (first.empty()) first = y;
    EXPECT_EQ(y, first);
  });
}

TEST(Exp, EdgesAreExact) {
  ForEachTarget([] {
    const std::vector<float> x = {0.0f, -0.0f, -kInf, -1e30f, -88.0f, -87.34f, kNan, kInf, 1000.0f, 88.0f};
    std::vector<float> y(x.size());
    Exp(x.data(), x.size(), y.data());
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 1.0f);
    for (size_t i = 2; i <= 5; ++i) EXPECT_EQ(y[i], 0.0f) << x[i];
    EXPECT_TRUE(std::isnan(y[6]));
    for (size_t i = 7; i <= 9; ++i) EXPECT_NEAR(y[i] / std::exp(88.0), 1, 1e-6) << x[i];
  });
}

TEST(SwiGlu, EqualsDoubleAndTailsDoNotChangeBits) {
  for (const size_t n : {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 1000}) {
    Random random(n);
    const std::vector<float> gate = random.Floats(n, -30, 30);
    const std::vector<float> up = random.Floats(n, -4, 4);
    std::vector<float> first;
    ForEachTarget([&] {
      std::vector<float> out(n + 1, 77.0f);
      SwiGlu(gate.data(), up.data(), n, out.data());
      EXPECT_EQ(out[n], 77.0f);
      for (size_t i = 0; i < n; ++i) {
        const double expected = gate[i] / (1 + std::exp(-double{gate[i]})) * up[i];
        ASSERT_NEAR(out[i], expected, 1e-6 * std::abs(expected) + 1e-30);
        float alone = gate[i];
        SwiGlu(&alone, &up[i], 1, &alone);
        ASSERT_EQ(alone, out[i]) << "position " << i << " of " << n;
      }
      if (first.empty()) first = out;
      EXPECT_EQ(out, first);
    });
  }
}

TEST(SwiGlu, ExtremesStayFiniteAndNanStays) {
  ForEachTarget([] {
    const std::vector<float> gate = {-1000.0f, 1000.0f, kNan, 0.0f}, up = {2.0f, 2.0f, 2.0f, 2.0f};
    std::vector<float> out(4);
    SwiGlu(gate.data(), up.data(), 4, out.data());
    EXPECT_NEAR(out[0], 0.0f, 1e-30f);
    EXPECT_EQ(out[1], 2000.0f);
    EXPECT_TRUE(std::isnan(out[2]));
    EXPECT_EQ(out[3], 0.0f);
  });
}

TEST(AddScaled, FusesOnEveryTarget) {
  for (const size_t n : {0, 1, 7, 8, 9, 32, 33}) {
    Random random(n);
    const std::vector<float> x = random.Floats(n), y = random.Floats(n);
    ForEachTarget([&] {
      std::vector<float> fused = y, added(n);
      AddScaled(0.3f, x.data(), n, fused.data());
      Add(x.data(), y.data(), n, added.data());
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(fused[i], std::fma(0.3f, x[i], y[i]));
        EXPECT_EQ(added[i], x[i] + y[i]);
      }
    });
  }
}

}  // namespace
}  // namespace estream
