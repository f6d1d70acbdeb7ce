// SPDX-License-Identifier: Apache-2.0
// Half arrays against the scalar conversions: every half, and floats around every rounding boundary, on every target.
#include "kernels/half_floats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "kernels/each_target.h"

namespace estream {
namespace {

constexpr size_t kAll = 65536;

TEST(HalfFloats, EveryHalfBecomesItsFloat) {
  std::vector<uint16_t> halves(kAll);
  for (size_t i = 0; i < kAll; ++i) halves[i] = static_cast<uint16_t>(i);
  ForEachTarget([&] {
    std::vector<float> floats(kAll);
    FromHalf(halves.data(), kAll, floats.data());
    for (size_t i = 0; i < kAll; ++i) {
      const float want = HalfToFloat(halves[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(floats[i])) << i;  // its payload does not matter
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(want)) << i;
      }
    }
  });
}

TEST(HalfFloats, FloatsRoundToTheNearestEvenHalf) {
  std::vector<float> floats;
  for (uint32_t high = 0; high < 65536; ++high) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x3000u, 0x8000u, 0xF000u}) {
      floats.push_back(std::bit_cast<float>(high << 16 | low));  // all exponents, ties and their neighbours
    }
  }
  ForEachTarget([&] {
    std::vector<uint16_t> halves(floats.size());
    ToHalf(floats.data(), floats.size(), halves.data());
    for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(halves[i], FloatToHalf(floats[i])) << floats[i];
  });
}

}  // namespace
}  // namespace estream
