// SPDX-License-Identifier: Apache-2.0
// Random blocks have the size, mean and signs that were asked for, and any of them can be made alone.
#include "tools/synth/random_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tools/synth/counter_random.h"

namespace estream {
namespace {

std::vector<WeightFormat> MadeFormats() {
  std::vector<WeightFormat> formats;
  for (const WeightFormat format : AllWeightFormats()) {
    if (MakesBlocks(format)) formats.push_back(format);
  }
  return formats;
}

std::vector<std::byte> Blocks(const BlockRecipe& recipe, uint64_t first, uint64_t count) {
  std::vector<std::byte> bytes(count * Traits(recipe.format).block_bytes);
  FillBlocks(recipe, first, count, bytes.data());
  return bytes;
}

std::vector<float> Values(const BlockRecipe& recipe, uint64_t first, uint64_t count) {
  std::vector<float> values(count * Traits(recipe.format).block_elements);
  DequantizeRow(recipe.format, Blocks(recipe, first, count).data(), values.data(), values.size());
  return values;
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments Measure(const std::vector<float>& values) {
  Moments m;
  for (const float v : values) m.mean += v;
  m.mean /= static_cast<double>(values.size());
  for (const float v : values) m.deviation += static_cast<double>(v) * v;
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

class RandomBlocks : public testing::TestWithParam<WeightFormat> {
 protected:
  // As many blocks as hold `values` values.
  uint64_t BlocksFor(uint64_t values) const { return values / Traits(GetParam()).block_elements; }
};

TEST_P(RandomBlocks, ValuesHaveTheAskedSizeAndNoMean) {
  for (const float deviation : {0.005f, 0.02f, 1.0f}) {
    const BlockRecipe recipe = {GetParam(), RandomKey(7, "size"), deviation};
    const Moments m = Measure(Values(recipe, 1000, BlocksFor(1 << 20)));
    // A million values leave a tenth of a percent of noise; constants are rounded, small scales are stored coarsely.
    EXPECT_NEAR(m.deviation / deviation, 1, 0.02) << deviation;
    EXPECT_NEAR(m.mean / deviation, 0, 0.02) << deviation;
  }
}

TEST_P(RandomBlocks, ScalesAreFiniteAndNoBlockIsZero) {
  const BlockRecipe recipe = {GetParam(), RandomKey(8, "finite"), 0.02f};
  const uint64_t count = BlocksFor(1 << 18);
  const std::vector<std::byte> bytes = Blocks(recipe, 0, count);
  EXPECT_FALSE(FindNonFinite(GetParam(), bytes.data(), count * Traits(GetParam()).block_elements).has_value());
  const std::vector<float> values = Values(recipe, 0, count);
  const size_t block = std::max(Traits(GetParam()).block_elements, 64u);
  for (size_t at = 0; at + block <= values.size(); at += block) {
    EXPECT_TRUE(std::any_of(values.begin() + at, values.begin() + at + block, [](float v) { return v != 0; })) << at;
  }
}

TEST_P(RandomBlocks, EachIsAFunctionOfItsIndex) {
  const BlockRecipe recipe = {GetParam(), RandomKey(9, "index"), 0.02f, 5};
  const uint64_t bytes = Traits(GetParam()).block_bytes;
  const std::vector<std::byte> together = Blocks(recipe, 3, 17);
  for (uint64_t i = 0; i < 17; ++i) {
    const std::vector<std::byte> alone = Blocks(recipe, 3 + i, 1);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<ptrdiff_t>(i * bytes))) << i;
  }
}

TEST_P(RandomBlocks, KeysAndIndicesGiveOtherBytes) {
  const BlockRecipe recipe = {GetParam(), RandomKey(1, "blk.0"), 0.02f};
  BlockRecipe other = recipe;
  other.key = RandomKey(1, "blk.1");
  const uint64_t count = BlocksFor(1 << 12);
  EXPECT_NE(Blocks(recipe, 0, count), Blocks(recipe, count, count));
  EXPECT_NE(Blocks(recipe, 0, count), Blocks(other, 0, count));
}

std::string FormatName(const testing::TestParamInfo<WeightFormat>& info) { return Traits(info.param).name; }
INSTANTIATE_TEST_SUITE_P(Formats, RandomBlocks, testing::ValuesIn(MadeFormats()), FormatName);

class RaisedBlocks : public testing::TestWithParam<WeightFormat> {};

TEST_P(RaisedBlocks, ComeFirstInEachRowAndArePositive) {
  const uint64_t row_blocks = 6, raised = 2, rows = 400;
  BlockRecipe recipe = {GetParam(), RandomKey(10, "raised"), 1, row_blocks, raised};
  const uint64_t elements = Traits(GetParam()).block_elements;
  std::vector<float> up, plain;
  for (uint64_t row = 0; row < rows; ++row) {
    const std::vector<float> values = Values(recipe, row * row_blocks, row_blocks);
    const auto middle = values.begin() + static_cast<ptrdiff_t>(raised * elements);
    up.insert(up.end(), values.begin(), middle);
    plain.insert(plain.end(), middle, values.end());
  }
  // Q4_K's mins wander by 2 of 42 steps around the middle, 0.36 codes of 0.5.
  EXPECT_GE(*std::min_element(up.begin(), up.end()), -0.02f);
  EXPECT_NEAR(Measure(up).mean, kRaisedMean, 0.08);
  EXPECT_NEAR(Measure(plain).mean, 0, 0.02);
}

INSTANTIATE_TEST_SUITE_P(Formats, RaisedBlocks,
                         testing::Values(WeightFormat::kQ4_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K), FormatName);

TEST(RandomNormal, HasMeanZeroAndVarianceOne) {
  std::vector<float> values(1 << 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = RandomNormal(RandomBits(RandomKey(3, "normal"), i));
  const Moments m = Measure(values);
  EXPECT_NEAR(m.mean, 0, 0.004);  // four standard errors
  EXPECT_NEAR(m.deviation, 1, 0.004);
  EXPECT_FLOAT_EQ(RandomNormal(0), -RandomNormal(~uint64_t{0}));
}

}  // namespace
}  // namespace estream
