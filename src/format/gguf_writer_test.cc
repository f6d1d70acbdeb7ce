// SPDX-License-Identifier: Apache-2.0
// What GgufWriter writes, Gguf::Open reads back: values, types, order, places.
#include "format/gguf_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "format/gguf.h"
#include "tests/memory_file.h"

namespace estream {
namespace {

// Header and data; byte i of every tensor is its index plus i, paddings are zero.
std::string WholeFile(const GgufWriter& writer) {
  const std::vector<std::byte> header = writer.Header();
  std::string file(reinterpret_cast<const char*>(header.data()), header.size());
  for (size_t t = 0; t < writer.tensors().size(); ++t) {
    const uint64_t bytes = writer.tensors()[t].bytes;
    for (uint64_t i = 0; i < bytes; ++i) file += static_cast<char>(t + i);
    file.append(writer.Padding(bytes), '\0');
  }
  return file;
}

Gguf Reopen(const GgufWriter& writer) {
  auto file = Gguf::Open(std::make_shared<MemoryFile>(WholeFile(writer)));
  EXPECT_TRUE(file.ok()) << file.status().message();
  return std::move(file).value();
}

TEST(GgufWriter, AnEmptyFileIsAValidOne) {
  const GgufWriter writer;
  const Gguf file = Reopen(writer);
  EXPECT_EQ(file.version(), 3u);
  EXPECT_TRUE(file.metadata().empty());
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(writer.data_bytes(), 0u);
}

TEST(GgufWriter, EveryKindOfValueReadsBack) {
  GgufWriter writer;
  writer.SetU32("u32", 4'000'000'000u);
  writer.SetU64("u64", 1ull << 63);
  writer.SetI32("i32", -5);
  writer.SetF32("f32", -0.25f);
  writer.SetBool("bool", true);
  writer.SetString("string", "naïve \0 text");
  writer.SetString("empty", "");
  writer.SetStrings("strings", std::vector<std::string>{"a", "", "long enough to leave the small buffer"});
  writer.SetStrings("no strings", {});
  writer.SetArray<int32_t>("i32s", std::vector<int32_t>{1, -2, 3});
  writer.SetArray<float>("f32s", std::vector<float>{0.5f, 2.0f});
  const Gguf file = Reopen(writer);
  EXPECT_EQ(file.Find("u32")->AsUint(), 4'000'000'000u);
  EXPECT_EQ(file.Find("u64")->AsUint(), 1ull << 63);
  EXPECT_EQ(file.Find("i32")->AsInt(), -5);
  EXPECT_EQ(file.Find("f32")->AsFloat(), -0.25);
  EXPECT_EQ(file.Find("bool")->AsBool(), true);
  EXPECT_EQ(file.Find("string")->AsString(), "naïve \0 text");
  EXPECT_EQ(file.Find("empty")->AsString(), "");
  EXPECT_EQ(file.Find("strings")->Strings()->at(2), "long enough to leave the small buffer");
  EXPECT_EQ(file.Find("no strings")->count(), 0u);
  EXPECT_EQ(file.Find("i32s")->IntAt(1), -2);
  EXPECT_EQ(file.Find("f32s")->FloatAt(1), 2.0);
}

TEST(GgufWriter, SettingAKeyAgainChangesTheValueAndKeepsThePlace) {
  GgufWriter writer;
  writer.SetString("general.architecture", "olmoe");
  writer.SetU32("second", 2);
  writer.SetString("general.architecture", "estream");
  const Gguf file = Reopen(writer);
  ASSERT_EQ(file.metadata().size(), 2u);
  EXPECT_EQ(file.metadata()[0].first, "general.architecture");
  EXPECT_EQ(file.metadata()[0].second.AsString(), "estream");
}

TEST(GgufWriter, CopiedValuesKeepTheirBytesAndTheAlignmentStaysOurs) {
  GgufWriter source(4096);
  source.SetStrings("tokens", std::vector<std::string>{"<s>", "b"});
  source.SetArray<uint16_t>("u16s", std::vector<uint16_t>{7, 65535});
  source.SetBool("flag", false);
  const Gguf original = Reopen(source);

  GgufWriter copy(64);
  for (const auto& [key, value] : original.metadata()) copy.SetValue(key, value);
  const Gguf file = Reopen(copy);
  EXPECT_EQ(file.alignment(), 64u);
  ASSERT_EQ(file.metadata().size(), original.metadata().size());
  for (const auto& [key, value] : original.metadata()) {
    if (key == "general.alignment") continue;
    const GgufValue* copied = file.Find(key);
    ASSERT_NE(copied, nullptr) << key;
    EXPECT_EQ(copied->type(), value.type()) << key;
    EXPECT_EQ(copied->element_type(), value.element_type()) << key;
    EXPECT_EQ(copied->count(), value.count()) << key;
    EXPECT_TRUE(std::ranges::equal(copied->bytes(), value.bytes())) << key;
  }
}

class GgufWriterAlignment : public testing::TestWithParam<uint64_t> {};

TEST_P(GgufWriterAlignment, TensorsLieWhereAddTensorSaid) {
  GgufWriter writer(GetParam());
  writer.SetString("general.name", "x");
  const uint64_t first = writer.AddTensor("f32", std::vector<uint64_t>{3}, 0);
  const uint64_t second = writer.AddTensor("q4_0", std::vector<uint64_t>{64, 3, 2}, 2);
  const uint64_t third = writer.AddTensor("i8", std::vector<uint64_t>{4097}, 24);
  EXPECT_EQ(first, 0u);

  const uint64_t data_start = writer.Header().size();
  EXPECT_EQ(data_start % GetParam(), 0u);
  EXPECT_EQ(WholeFile(writer).size(), data_start + writer.data_bytes());
  const Gguf file = Reopen(writer);
  EXPECT_EQ(file.alignment(), GetParam());
  ASSERT_EQ(file.tensors().size(), 3u);
  const uint64_t offsets[] = {first, second, third};
  const uint64_t sizes[] = {12, 64 / 32 * 18 * 6, 4097};
  for (size_t t = 0; t < 3; ++t) {
    const GgufTensor& tensor = file.tensors()[t];
    EXPECT_EQ(tensor.name, writer.tensors()[t].name);
    EXPECT_EQ(tensor.dimensions, writer.tensors()[t].dimensions);
    EXPECT_EQ(tensor.gguf_type, writer.tensors()[t].gguf_type);
    EXPECT_EQ(tensor.offset, data_start + offsets[t]) << tensor.name;
    EXPECT_EQ(tensor.bytes, sizes[t]) << tensor.name;
    std::vector<std::byte> bytes(tensor.bytes);
    ASSERT_TRUE(file.ReadTensor(tensor, 0, bytes).ok());
    EXPECT_EQ(bytes.back(), static_cast<std::byte>(t + sizes[t] - 1)) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, GgufWriterAlignment, testing::Values(8, 32, 64, 4096));

}  // namespace
}  // namespace estream
