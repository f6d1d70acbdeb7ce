// SPDX-License-Identifier: Apache-2.0
// What an open GGUF file offers: values of every type, look-ups and their errors, tensors.
#include "format/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/gguf_builder.h"
#include "tests/gguf_walk.h"
#include "tests/memory_file.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Type = GgufValueType;

Result<Gguf> OpenBytes(std::string bytes) {
  return Gguf::Open(std::make_shared<MemoryFile>(std::move(bytes), "model.gguf"));
}

Gguf OpenSound(const GgufBuilder& builder) {
  auto gguf = OpenBytes(builder.Build());
  EXPECT_TRUE(gguf.ok()) << gguf.status().message();
  return std::move(gguf).value();
}

GgufBuilder EveryType() {
  GgufBuilder b;
  b.Number("u8", Type::kU8, uint8_t{200}).Number("i8", Type::kI8, int8_t{-100});
  b.Number("u16", Type::kU16, uint16_t{65535}).Number("i16", Type::kI16, int16_t{-30000});
  b.U32("u32", 4'000'000'000u).Number("i32", Type::kI32, int32_t{-2'000'000'000});
  b.Number("u64", Type::kU64, UINT64_MAX).Number("i64", Type::kI64, INT64_MIN);
  b.F32("f32", 0.5f).Number("f64", Type::kF64, 0.25).Bool("yes", true).Bool("no", false);
  b.String("text", "hello").String("empty", "");
  b.Array<int32_t>("i32s", Type::kI32, {1, -2, 3}).Array<uint64_t>("u64s", Type::kU64, {5, UINT64_MAX});
  b.Array<float>("f32s", Type::kF32, {1.5f, -2.5f}).Array<std::string>("texts", Type::kString, {"a", "", "ccc"});
  b.Array<uint8_t>("bools", Type::kBool, {1, 0}).Array<uint8_t>("none", Type::kU8, {});
  b.Array<std::string>("no_texts", Type::kString, {});
  return b;
}

TEST(GgufValue, IntegersConvertWhereTheyFit) {
  const Gguf g = OpenSound(EveryType());
  const struct {
    const char* key;
    std::optional<uint64_t> as_uint;
    std::optional<int64_t> as_int;
  } kCases[] = {
      {"u8", 200, 200},
      {"i8", std::nullopt, -100},
      {"u16", 65535, 65535},
      {"i16", std::nullopt, -30000},
      {"u32", 4'000'000'000u, 4'000'000'000},
      {"i32", std::nullopt, -2'000'000'000},
      {"u64", UINT64_MAX, std::nullopt},
      {"i64", std::nullopt, INT64_MIN},
      {"f32", std::nullopt, std::nullopt},
      {"yes", std::nullopt, std::nullopt},
      {"text", std::nullopt, std::nullopt},
      {"i32s", std::nullopt, std::nullopt},
  };
  for (const auto& c : kCases) {
    const GgufValue* value = g.Find(c.key);
    ASSERT_NE(value, nullptr) << c.key;
    EXPECT_EQ(value->AsUint(), c.as_uint) << c.key;
    EXPECT_EQ(value->AsInt(), c.as_int) << c.key;
    EXPECT_EQ(value->AsFloat().has_value(), std::string(c.key) == "f32") << c.key;
  }
}

TEST(GgufValue, FloatsBoolsAndStrings) {
  const Gguf g = OpenSound(EveryType());
  EXPECT_EQ(g.Find("f32")->AsFloat(), 0.5);
  EXPECT_EQ(g.Find("f64")->AsFloat(), 0.25);
  EXPECT_EQ(g.Find("u32")->AsFloat(), std::nullopt);
  EXPECT_EQ(g.Find("yes")->AsBool(), true);
  EXPECT_EQ(g.Find("no")->AsBool(), false);
  EXPECT_EQ(g.Find("u8")->AsBool(), std::nullopt);
  EXPECT_EQ(g.Find("text")->AsString(), "hello");
  EXPECT_EQ(g.Find("empty")->AsString(), "");
  EXPECT_EQ(g.Find("texts")->AsString(), std::nullopt);
  EXPECT_EQ(g.Find("text")->bytes().size(), 8u + 5u);
}

TEST(GgufValue, Arrays) {
  const Gguf g = OpenSound(EveryType());
  const GgufValue& ints = *g.Find("i32s");
  EXPECT_EQ(ints.type(), Type::kArray);
  EXPECT_EQ(ints.element_type(), Type::kI32);
  EXPECT_EQ(ints.count(), 3u);
  EXPECT_EQ(ints.IntAt(1), -2);
  EXPECT_EQ(ints.FloatAt(1), std::nullopt);
  EXPECT_EQ(ints.Strings(), std::nullopt);
  EXPECT_EQ(ints.bytes().size(), 12u);
  EXPECT_EQ(g.Find("u64s")->IntAt(0), 5);
  EXPECT_EQ(g.Find("u64s")->IntAt(1), std::nullopt);
  EXPECT_EQ(g.Find("f32s")->FloatAt(1), -2.5);
  EXPECT_EQ(g.Find("f32s")->IntAt(1), std::nullopt);
  EXPECT_THAT(*g.Find("texts")->Strings(), ElementsAre("a", "", "ccc"));
  EXPECT_EQ(g.Find("texts")->IntAt(0), std::nullopt);
  EXPECT_TRUE(g.Find("no_texts")->Strings()->empty());
  EXPECT_EQ(g.Find("none")->count(), 0u);
  EXPECT_EQ(g.Find("u8")->IntAt(0), std::nullopt);
}

TEST(Gguf, LookUpsSayWhatWasExpectedAndFound) {
  const Gguf g = OpenSound(EveryType().F32("nan", NAN).F32("inf", INFINITY));
  EXPECT_EQ(g.Uint("u8", 1, 200).value(), 200u);
  EXPECT_EQ(g.UintOr("u8", 7, 0, 255).value(), 200u);
  EXPECT_EQ(g.UintOr("absent", 7, 0, 5).value(), 7u);
  EXPECT_EQ(g.Float("f64").value(), 0.25);
  EXPECT_EQ(g.FloatOr("absent", 1.5).value(), 1.5);
  EXPECT_EQ(g.BoolOr("yes", false).value(), true);
  EXPECT_EQ(g.BoolOr("absent", true).value(), true);
  EXPECT_EQ(g.String("text").value(), "hello");
  const struct {
    Status status;
    const char* says;
  } kCases[] = {
      {g.Uint("absent", 0, 1).status(), "model.gguf: key \"absent\" is missing"},
      {g.Float("absent").status(), "model.gguf: key \"absent\" is missing"},
      {g.String("absent").status(), "model.gguf: key \"absent\" is missing"},
      {g.Uint("text", 1, 65536).status(),
       "model.gguf: key \"text\" is a string, expected an unsigned integer in 1..65536"},
      {g.Uint("u8", 1, 100).status(), "model.gguf: key \"u8\" is 200, expected an unsigned integer in 1..100"},
      {g.UintOr("u8", 0, 3, 3).status(), "model.gguf: key \"u8\" is 200, expected the unsigned integer 3"},
      {g.Uint("i8", 0, 100).status(), "model.gguf: key \"i8\" is -100, expected an unsigned integer in 0..100"},
      {g.Uint("u64", 0, 1).status(),
       "model.gguf: key \"u64\" is 18446744073709551615, expected an unsigned integer in 0..1"},
      {g.Uint("f32", 0, 1).status(), "model.gguf: key \"f32\" is the float 0.5, expected an unsigned integer in 0..1"},
      {g.Uint("i32s", 0, 1).status(),
       "model.gguf: key \"i32s\" is an array of 3 i32, expected an unsigned integer in 0..1"},
      {g.Float("u8").status(), "model.gguf: key \"u8\" is 200, expected a finite float"},
      {g.Float("nan").status(), "model.gguf: key \"nan\" is nan, expected a finite float"},
      {g.FloatOr("inf", 0).status(), "model.gguf: key \"inf\" is inf, expected a finite float"},
      {g.BoolOr("u8", false).status(), "model.gguf: key \"u8\" is 200, expected a bool"},
      {g.String("yes").status(), "model.gguf: key \"yes\" is a bool, expected a string"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(c.status.code(), StatusCode::kCorrupt);
    EXPECT_EQ(c.status.message(), c.says);
  }
}

TEST(Gguf, TensorsAreListedInFileOrderAndReadInside) {
  GgufBuilder b(64);
  b.Tensor("first", {32, 3}, 2, std::string(54, 'q')).Tensor("second", {2, 3, 4, 5}, 0, std::string(480, 'f'));
  b.Tensor("bytes", {7}, 24, "abcdefg");
  const Gguf g = OpenSound(b);
  ASSERT_EQ(g.tensors().size(), 3u);
  EXPECT_EQ(g.tensors()[0].name, "first");
  EXPECT_EQ(g.alignment(), 64u);
  EXPECT_EQ(g.shard_count(), 1u);
  EXPECT_EQ(g.file_bytes(), b.Build().size());
  const GgufTensor* second = g.FindTensor("second");
  ASSERT_EQ(second, &g.tensors()[1]);
  EXPECT_EQ(second->dimensions, 4u);
  EXPECT_EQ(second->cols(), 2u);
  EXPECT_EQ(second->rows(), 60u);
  EXPECT_EQ(second->bytes, 480u);
  EXPECT_EQ(second->offset % 64, 0u);
  EXPECT_EQ(g.FindTensor("first")->rows(), 3u);
  EXPECT_EQ(g.FindTensor("fir"), nullptr);
  std::string out(3, ' ');
  ASSERT_TRUE(g.ReadTensor(*g.FindTensor("bytes"), 4, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "efg");
}

TEST(Gguf, AFileWithoutTensorsOpens) {
  const Gguf g = OpenSound(GgufBuilder().String("tokenizer.ggml.model", "gpt2"));
  EXPECT_TRUE(g.tensors().empty());
  EXPECT_EQ(g.metadata().size(), 1u);
  const Gguf nothing = OpenSound(GgufBuilder());
  EXPECT_TRUE(nothing.metadata().empty());
}

TEST(Gguf, EveryTypeOfTheTableIsMeasured) {
  const struct {
    uint32_t type;
    uint64_t values, bytes;
  } kCases[] = {{0, 5, 20},     {1, 5, 10},     {2, 64, 36},    {3, 64, 40},    {6, 64, 44},    {7, 64, 48},
                {8, 64, 68},    {9, 64, 72},    {10, 512, 168}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176},
                {14, 256, 210}, {15, 256, 292}, {20, 32, 18},   {23, 256, 136}, {24, 3, 3},     {27, 3, 24},
                {28, 3, 24},    {30, 3, 6},     {34, 256, 54},  {35, 256, 66},  {39, 32, 17}};
  for (const auto& c : kCases) {
    const Gguf g = OpenSound(GgufBuilder().Tensor("t", {c.values}, c.type, std::string(c.bytes, 'x')));
    EXPECT_EQ(g.tensors()[0].bytes, c.bytes) << c.type;
  }
}

TEST(Gguf, OrderOfTensorsAndGapsAreTheWritersChoice) {
  GgufBuilder b;
  b.TensorInfo("late", {8}, 24, 160).TensorInfo("early", {8}, 24, 0).TensorInfo("middle", {160 - 64}, 24, 64);
  const Gguf g = OpenSound(b.Data(std::string(168, 'x')));
  EXPECT_EQ(g.tensors()[0].name, "late");
  EXPECT_EQ(g.tensors()[0].offset - g.tensors()[1].offset, 160u);
}

TEST(Gguf, LargeFileOpensWithoutReadingItsData) {
  TempDir dir;
  constexpr uint64_t kDataBytes = uint64_t{17} << 30;
  GgufBuilder b;
  b.TensorInfo("huge", {1024, 1024, 4096}, 0, 0).TensorInfo("tail", {32}, 24, kDataBytes - 64);
  WriteBinary(dir.File("huge.gguf"), b.Build());
  const uint64_t header = std::filesystem::file_size(dir.File("huge.gguf"));
  if (truncate(dir.File("huge.gguf").c_str(), static_cast<off_t>(header + kDataBytes)) != 0) {
    GTEST_SKIP() << "the file system has no sparse files of this size";
  }
  auto file = OpenFile(dir.File("huge.gguf"));
  ASSERT_TRUE(file.ok());
  const auto counted = std::make_shared<FaultyFile>(std::move(file).value());
  const auto gguf = Gguf::Open(counted);
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  EXPECT_LT(counted->bytes_read(), 200'000u);
  std::byte last[32];
  EXPECT_TRUE(gguf->ReadTensor(*gguf->FindTensor("tail"), 0, last).ok());
}

// The cost of a vocabulary: each byte is read twice at most, in pieces, never one string at a time.
TEST(Gguf, LargeVocabularyIsReadInPieces) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 150'000; ++i) tokens.push_back("token" + std::to_string(i));
  const std::string bytes = GgufBuilder().Array("tokenizer.ggml.tokens", Type::kString, tokens).Build();
  const auto counted = std::make_shared<FaultyFile>(std::make_shared<MemoryFile>(bytes));
  const auto gguf = Gguf::Open(counted);
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  EXPECT_EQ(gguf->Find("tokenizer.ggml.tokens")->Strings()->back(), tokens.back());
  EXPECT_LE(counted->bytes_read(), 2 * bytes.size() + 100'000);
  EXPECT_LE(counted->reads(), bytes.size() / 50'000 + 4);
}

}  // namespace
}  // namespace estream
