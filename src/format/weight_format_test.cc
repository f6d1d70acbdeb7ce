// SPDX-License-Identifier: Apache-2.0
// Every weight format against stored blocks and values, bit for bit, and the scan for unusable scales.
#include "format/weight_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "format/gguf.h"
#include "format/gguf_types.h"
#include "tests/test_files.h"

namespace estream {
namespace {

std::string FileName(WeightFormat format, const char* extension) {
  std::string name = Traits(format).name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return TestData("blocks/" + name + extension);
}

const std::byte* Bytes(const std::string& text) { return reinterpret_cast<const std::byte*>(text.data()); }

TEST(WeightFormat, DequantisesStoredBlocksBitForBit) {
  for (const WeightFormat format : AllWeightFormats()) {
    if (format == WeightFormat::kF32) continue;  // its values are its bytes
    SCOPED_TRACE(Traits(format).name);
    const std::string blocks = ReadBinary(FileName(format, ".bin"));
    const std::string expected = ReadBinary(FileName(format, ".f32"));
    const uint64_t elements = blocks.size() / Traits(format).block_bytes * Traits(format).block_elements;
    ASSERT_EQ(RowBytes(format, elements), blocks.size());
    ASSERT_EQ(elements * sizeof(float), expected.size());
    std::vector<float> values(elements);
    DequantizeRow(format, Bytes(blocks), values.data(), elements);
    for (uint64_t i = 0; i < elements; ++i) {
      ASSERT_EQ(std::memcmp(&values[i], expected.data() + 4 * i, 4), 0) << "element " << i << " is " << values[i];
    }
  }
}

TEST(WeightFormat, F32IsCopied) {
  const std::vector<float> row = {0.0f, -0.0f, 1.5f, std::numeric_limits<float>::denorm_min()};
  std::vector<float> out(4);
  DequantizeRow(WeightFormat::kF32, reinterpret_cast<const std::byte*>(row.data()), out.data(), 4);
  EXPECT_EQ(std::memcmp(row.data(), out.data(), 16), 0);
}

TEST(WeightFormat, SourceNeedsNoAlignment) {
  for (const WeightFormat format : AllWeightFormats()) {
    if (format == WeightFormat::kF32) continue;
    SCOPED_TRACE(Traits(format).name);
    const std::string blocks = ReadBinary(FileName(format, ".bin"));
    const uint64_t elements = blocks.size() / Traits(format).block_bytes * Traits(format).block_elements;
    std::vector<float> expected(elements), shifted(elements);
    DequantizeRow(format, Bytes(blocks), expected.data(), elements);
    for (const size_t shift : {1, 2, 3}) {
      const std::string moved = std::string(shift, 'x') + blocks;
      DequantizeRow(format, Bytes(moved) + shift, shifted.data(), elements);
      ASSERT_EQ(std::memcmp(expected.data(), shifted.data(), elements * 4), 0) << shift;
    }
  }
}

TEST(WeightFormat, ZeroElementsTouchNothing) {
  for (const WeightFormat format : AllWeightFormats()) {
    DequantizeRow(format, nullptr, nullptr, 0);
    EXPECT_EQ(FindNonFinite(format, nullptr, 0), std::nullopt);
    EXPECT_EQ(RowBytes(format, 0), 0u);
  }
}

TEST(WeightFormat, AgreesWithTheTableOfGgufTypes) {
  for (const WeightFormat format : AllWeightFormats()) {
    const auto id = static_cast<uint32_t>(format);
    const GgufTypeTraits* type = FindGgufType(id);
    ASSERT_NE(type, nullptr);
    EXPECT_STREQ(type->name, Traits(format).name);
    EXPECT_EQ(type->block_bytes, Traits(format).block_bytes);
    EXPECT_EQ(type->block_elements, Traits(format).block_elements);
    ASSERT_TRUE(WeightFormatFromGgufType(id).ok());
    EXPECT_EQ(*WeightFormatFromGgufType(id), format);
  }
}

TEST(WeightFormat, OtherTypesAreRefusedByName) {
  const auto message = [](uint32_t id) {
    const auto result = WeightFormatFromGgufType(id);
    EXPECT_EQ(result.status().code(), StatusCode::kUnsupported) << id;
    return result.status().message();
  };
  EXPECT_EQ(message(16), "weight type IQ2_XXS (16) is not supported");
  EXPECT_EQ(message(4), "weight type Q4_2 (4) is not supported");
  EXPECT_EQ(message(26), "weight type I32 (26) is not supported");
  EXPECT_EQ(message(1000), "weight type 1000 is not known");
  EXPECT_EQ(message(UINT32_MAX), "weight type 4294967295 is not known");
}

TEST(WeightFormat, GgufTypeNames) {
  EXPECT_EQ(GgufTypeName(2), "Q4_0");
  EXPECT_EQ(GgufTypeName(17), "IQ2_XS");
  EXPECT_EQ(GgufTypeName(24), "I8");
  EXPECT_EQ(GgufTypeName(5), "Q4_3");
  EXPECT_EQ(GgufTypeName(255), std::nullopt);
}

// Byte offsets of the fp16 scales and mins of a block.
std::vector<uint32_t> ScaleOffsets(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return {0, 2};
    case WeightFormat::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// What makes a value of `format` NaN, infinite, negatively infinite, and the largest finite one.
std::vector<std::string> NonFinite(WeightFormat format) {
  if (format == WeightFormat::kF32)
    return {{"\0\0\xC0\x7F", 4}, {"\0\0\x80\x7F", 4}, {"\0\0\x80\xFF", 4}, {"\1\0\x80\x7F", 4}};
  if (format == WeightFormat::kBF16) return {{"\xC0\x7F", 2}, {"\x80\x7F", 2}, {"\x80\xFF", 2}};
  return {{"\0\x7E", 2}, {"\0\x7C", 2}, {"\0\xFC", 2}, {"\1\x7C", 2}};
}

std::string LargestFinite(WeightFormat format) {
  if (format == WeightFormat::kF32) return {"\xFF\xFF\x7F\x7F", 4};
  if (format == WeightFormat::kBF16) return {"\x7F\x7F", 2};
  return {"\xFF\x7B", 2};
}

TEST(WeightFormat, FindsTheFirstBlockWithANonFiniteScale) {
  constexpr uint64_t kBlocks = 5;
  for (const WeightFormat format : AllWeightFormats()) {
    const WeightFormatTraits& traits = Traits(format);
    const uint64_t elements = kBlocks * traits.block_elements;
    for (const uint32_t offset : ScaleOffsets(format)) {
      for (const std::string& bad : NonFinite(format)) {
        for (uint64_t block = 0; block < kBlocks; ++block) {
          std::string row(kBlocks * traits.block_bytes, '\0');  // zero scales are legal
          ASSERT_EQ(FindNonFinite(format, Bytes(row), elements), std::nullopt);
          row.replace(block * traits.block_bytes + offset, bad.size(), bad);
          row.replace((kBlocks - 1) * traits.block_bytes + offset, bad.size(), bad);  // only the first is reported
          ASSERT_EQ(FindNonFinite(format, Bytes(row), elements), block * traits.block_elements) << traits.name;
        }
      }
    }
  }
}

TEST(WeightFormat, LargestFiniteScalesAndAnyQuantsAreFine) {
  for (const WeightFormat format : AllWeightFormats()) {
    const WeightFormatTraits& traits = Traits(format);
    std::string row(traits.block_bytes, '\xFF');
    for (const uint32_t offset : ScaleOffsets(format)) {
      row.replace(offset, LargestFinite(format).size(), LargestFinite(format));
    }
    EXPECT_EQ(FindNonFinite(format, Bytes(row), traits.block_elements), std::nullopt) << traits.name;
  }
}

}  // namespace
}  // namespace estream
