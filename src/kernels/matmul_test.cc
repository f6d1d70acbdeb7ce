// SPDX-License-Identifier: Apache-2.0
// Matrix products against a double-precision sum (close) and against a scalar chain of fused steps (bit for bit).
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/each_target.h"

namespace estream {
namespace {

struct Shape {
  uint32_t rows;
  size_t n;
  size_t k;
};

std::vector<float> RandomFloats(size_t n, std::mt19937& rng) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> out(n);
  for (float& x : out) x = uniform(rng);
  return out;
}

// Operands whose rows are further apart than they are long, with one row to spare.
struct Operands {
  Operands(const Shape& s, std::mt19937& rng)
      : shape(s),
        a_stride(s.k + 3),
        b_stride(s.n + 16),
        c_stride(s.n + 5),
        a(RandomFloats((s.rows + 1) * a_stride, rng)),
        b(RandomFloats((s.k + 1) * b_stride, rng)),
        c(RandomFloats((s.rows + 1) * c_stride, rng)) {}

  // The contract as a loop: one accumulator, k ascending, one rounding a step.
  std::vector<float> Expected(bool accumulate) const {
    std::vector<float> out = c;
    for (uint32_t r = 0; r < shape.rows; ++r) {
      for (size_t j = 0; j < shape.n; ++j) {
        float sum = accumulate ? c[r * c_stride + j] : 0.0f;
        for (size_t k = 0; k < shape.k; ++k) sum = std::fma(a[r * a_stride + k], b[k * b_stride + j], sum);
        out[r * c_stride + j] = sum;
      }
    }
    return out;
  }

  std::vector<float> Computed(bool accumulate) const {
    std::vector<float> out = c;
    MatMul(a.data(), a_stride, shape.rows, b.data(), b_stride, shape.n, shape.k, out.data(), c_stride, accumulate);
    return out;
  }

  Shape shape;
  size_t a_stride, b_stride, c_stride;
  std::vector<float> a, b, c;
};

bool SameBits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), 4 * x.size()) == 0);
}

TEST(MatMul, IsTheScalarChainBitForBitOnEveryTarget) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  for (const uint32_t rows : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 11u, 12u, 13u, 31u, 33u}) {
    for (const size_t n : {16, 32, 48, 64, 80}) {
      for (const size_t k : {0, 1, 2, 31, 64, 65}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, n " << n << ", k " << k);
        const Operands x({rows, n, k}, rng);
        for (const bool accumulate : {false, true}) {
          const std::vector<float> expected = x.Expected(accumulate);
          ForEachTarget([&] { ASSERT_TRUE(SameBits(x.Computed(accumulate), expected)) << accumulate; });
        }
      }
    }
  }
}

TEST(MatMul, IsCloseToADoubleSum) {
  std::mt19937 rng(21);
  const Operands x({13, 48, 2048}, rng);
  ForEachTarget([&] {
    const std::vector<float> out = x.Computed(false);
    for (uint32_t r = 0; r < x.shape.rows; ++r) {
      for (size_t j = 0; j < x.shape.n; ++j) {
        double sum = 0, magnitude = 0;
        for (size_t k = 0; k < x.shape.k; ++k) {
          const double term = double{x.a[r * x.a_stride + k]} * x.b[k * x.b_stride + j];
          sum += term;
          magnitude += std::abs(term);
        }
        // k roundings of at most half a unit in the last place of a partial sum, each below `magnitude`.
        ASSERT_NEAR(out[r * x.c_stride + j], sum, magnitude * static_cast<double>(x.shape.k) * 0x1p-25);
      }
    }
  });
}

TEST(MatMul, RowsDoNotDependOnTheirCompany) {
  std::mt19937 rng(22);
  const Operands x({23, 32, 100}, rng);
  ForEachTarget([&] {
    const std::vector<float> all = x.Computed(false);
    for (uint32_t first = 0; first < x.shape.rows; ++first) {
      for (uint32_t count = 1; first + count <= x.shape.rows; ++count) {
        std::vector<float> some = all;
        std::fill(some.begin(), some.end(), 0.0f);
        MatMul(x.a.data() + first * x.a_stride, x.a_stride, count, x.b.data(), x.b_stride, 32, x.shape.k, some.data(),
               x.c_stride, false);
        for (uint32_t r = 0; r < count; ++r) {
          ASSERT_EQ(std::memcmp(&some[r * x.c_stride], &all[(first + r) * x.c_stride], 4 * 32), 0) << first << count;
        }
      }
    }
  });
}

TEST(MatMul, CuttingKChangesNoBit) {
  std::mt19937 rng(23);
  const Operands x({9, 32, 257}, rng);
  ForEachTarget([&] {
    const std::vector<float> whole = x.Computed(false);
    for (const size_t cut : {1, 32, 100, 256}) {
      std::vector<float> cuts = x.c;
      for (size_t k = 0; k < x.shape.k; k += cut) {
        MatMul(x.a.data() + k, x.a_stride, x.shape.rows, x.b.data() + k * x.b_stride, x.b_stride, 32,
               std::min(cut, x.shape.k - k), cuts.data(), x.c_stride, k > 0);
      }
      EXPECT_TRUE(SameBits(cuts, whole)) << cut;
    }
  });
}

TEST(MatMulPanel, IsMatMulOf32Columns) {
  std::mt19937 rng(24);
  const std::vector<float> a = RandomFloats(17 * 96, rng), b = RandomFloats(96 * 32, rng);
  for (const bool accumulate : {false, true}) {
    std::vector<float> c = RandomFloats(17 * 40, rng), d = c;
    MatMul(a.data(), 96, 17, b.data(), 32, 32, 96, c.data(), 40, accumulate);
    MatMulPanel(a.data(), 96, 17, b.data(), 96, d.data(), 40, accumulate);
    EXPECT_TRUE(SameBits(c, d));
  }
}

TEST(KernelTargetName, FollowsTheTargetInUse) {
  std::vector<std::string> names;
  ForEachTarget([&] { names.push_back(KernelTargetName()); });
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(KernelTargetName(), names.front());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

}  // namespace
}  // namespace estream
