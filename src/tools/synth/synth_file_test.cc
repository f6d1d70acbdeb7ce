// SPDX-License-Identifier: Apache-2.0
// Synthetic files: the true sizes, the same bytes however they are read, and models that plan.
#include "tools/synth/synth_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "family/family.h"
#include "format/gguf.h"
#include "tests/random.h"
#include "text/tokenizer.h"

namespace estream {
namespace {

ModelShape Shape(const std::string& id) { return *FindModelShape(id); }

std::vector<std::byte> Read(const SynthFile& file, uint64_t offset, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  EXPECT_TRUE(file.ReadAt(offset, out).ok());
  return out;
}

std::vector<std::byte> ReadAll(const SynthFile& file) { return Read(file, 0, file.size()); }

Gguf Open(const ModelShape& shape, TypeMix mix, uint64_t seed = 1) {
  auto file = Gguf::Open(std::make_shared<SynthFile>(shape, mix, seed));
  EXPECT_TRUE(file.ok()) << file.status().message();
  return std::move(file).value();
}

std::map<std::string, int> TypeCounts(const Gguf& file) {
  std::map<std::string, int> counts;
  for (const GgufTensor& tensor : file.tensors()) ++counts[std::string(*GgufTypeName(tensor.gguf_type))];
  return counts;
}

// Paper, Table 1, in GB. DeepSeek's 0.99 holds its latent's up-projection twice, whole and in halves (113 MB more);
// files that llama.cpp writes hold the halves only.
TEST(SynthFile, HasTheSizesOfTableOne) {
  const struct {
    const char* id;
    double other, expert;
  } kRows[] = {{"olmoe-1b-7b", 0.30, 3.62},
               {"lfm2.5-8b-a1b", 0.41, 4.36},
               {"deepseek-v2-lite", 0.88, 8.10},
               {"qwen3-30b-a3b", 0.91, 16.31},
               {"mixtral-8x7b", 1.04, 25.37}};
  for (const auto& row : kRows) {
    const SynthFile file(Shape(row.id), TypeMix::kQ4_0, 1);
    EXPECT_NEAR(static_cast<double>(file.other_bytes()) * 1e-9, row.other, 0.005) << row.id;
    EXPECT_NEAR(static_cast<double>(file.expert_bytes()) * 1e-9, row.expert, 0.005) << row.id;
  }
}

TEST(SynthFile, FullSizesOpenAndPlan) {
  for (const ModelShape& shape : AllModelShapes()) {
    for (const TypeMix mix : {TypeMix::kQ4_0, TypeMix::kQ4_K_M}) {
      const Gguf file = Open(shape, mix);
      const std::string_view architecture = *file.Find("general.architecture")->AsString();
      if (KnownArchitectures().find(architecture) == std::string::npos) continue;
      const auto plan = PlanModel(file);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_EQ(plan->layers.size(), shape.layers);
      EXPECT_EQ(plan->experts, shape.experts);
      EXPECT_EQ(plan->top_k, shape.top_k);
      EXPECT_EQ(plan->vocabulary, shape.vocabulary);
    }
  }
}

TEST(SynthFile, MixesAreThoseOfThePaperAndOfLlamaCpp) {
  using testing::Key;
  using testing::UnorderedElementsAre;
  EXPECT_THAT(TypeCounts(Open(Shape("olmoe-1b-7b"), TypeMix::kQ4_0)),
              UnorderedElementsAre(Key("Q4_0"), testing::Pair("Q6_K", 1), Key("F32")));
  EXPECT_THAT(TypeCounts(Open(Shape("deepseek-v2-lite"), TypeMix::kQ4_0)),
              UnorderedElementsAre(Key("Q4_0"), testing::Pair("F16", 3 * 27), Key("F32")));
  EXPECT_THAT(TypeCounts(Open(Shape("mixtral-8x7b"), TypeMix::kQ4_0)),
              UnorderedElementsAre(Key("Q4_0"), testing::Pair("Q8_0", 2 * 32), Key("F32")));
  EXPECT_THAT(TypeCounts(Open(Shape("qwen3-30b-a3b"), TypeMix::kQ4_K_M)),
              UnorderedElementsAre(Key("Q4_K"), testing::Pair("Q6_K", 24 + 24 + 1), Key("F32")));
  // 1408 and 10944 are no multiples of 256.
  EXPECT_THAT(TypeCounts(Open(Shape("deepseek-v2-lite"), TypeMix::kQ4_K_M)),
              UnorderedElementsAre(Key("Q4_K"), Key("Q5_0"), Key("Q6_K"), Key("Q8_0"), Key("F32")));
}

class TinySynthFile : public testing::TestWithParam<std::string> {
 protected:
  ModelShape TinyShape() const { return Tiny(Shape(GetParam())); }
};

TEST_P(TinySynthFile, OpensAndTokenizes) {
  for (const TypeMix mix : {TypeMix::kQ4_0, TypeMix::kQ4_K_M}) {
    const Gguf file = Open(TinyShape(), mix);
    EXPECT_LT(file.file_bytes(), 8u << 20);
    EXPECT_TRUE(Tokenizer::FromGguf(file, {}).ok());
  }
}

TEST_P(TinySynthFile, BytesDependOnTheSeedAndNothingElse) {
  const ModelShape shape = TinyShape();
  const SynthFile file(shape, TypeMix::kQ4_K_M, 5);
  EXPECT_EQ(ReadAll(file), ReadAll(SynthFile(shape, TypeMix::kQ4_K_M, 5)));
  EXPECT_NE(ReadAll(file), ReadAll(SynthFile(shape, TypeMix::kQ4_K_M, 6)));
}

TEST_P(TinySynthFile, PiecesEqualTheWhole) {
  Random random(31);
  SCOPED_TRACE(random.seed());
  for (const TypeMix mix : {TypeMix::kQ4_0, TypeMix::kQ4_K_M}) {
    const SynthFile file(TinyShape(), mix, 1);
    const std::vector<std::byte> whole = ReadAll(file);
    for (int i = 0; i < 2000; ++i) {
      const auto offset = random.Below(static_cast<uint32_t>(whole.size()));
      const uint64_t bytes = std::min<uint64_t>(random.Below(i % 10 == 0 ? 100000 : 700), whole.size() - offset);
      const std::vector<std::byte> part = Read(file, offset, bytes);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + offset)) << offset << " + " << bytes;
    }
    std::vector<std::byte> beyond(2);
    EXPECT_EQ(file.ReadAt(whole.size() - 1, beyond).code(), StatusCode::kCorrupt);
  }
}

TEST_P(TinySynthFile, NoTwoExpertsAreEqualAndAllScalesAreFinite) {
  const Gguf file = Open(TinyShape(), TypeMix::kQ4_0);
  for (const GgufTensor& tensor : file.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    ASSERT_TRUE(file.ReadTensor(tensor, 0, bytes).ok());
    const WeightFormat format = *WeightFormatFromGgufType(tensor.gguf_type);
    EXPECT_FALSE(FindNonFinite(format, bytes.data(), tensor.cols() * tensor.rows()).has_value()) << tensor.name;
    if (tensor.dimensions != 3) continue;
    const size_t expert = bytes.size() / tensor.dims[2];
    for (uint64_t e = 1; e < tensor.dims[2]; ++e) {
      EXPECT_FALSE(std::equal(bytes.begin(), bytes.begin() + expert, bytes.begin() + e * expert)) << tensor.name;
    }
  }
}

std::vector<std::string> Ids() {
  std::vector<std::string> ids;
  for (const ModelShape& shape : AllModelShapes()) ids.push_back(shape.id);
  return ids;
}
std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, TinySynthFile, testing::ValuesIn(Ids()), TestName);

TEST(ModelShape, UnknownNamesAndImpossibleDepthsAreRefused) {
  EXPECT_THAT(FindModelShape("gpt-5").status().message(), testing::HasSubstr("olmoe-1b-7b, lfm2.5-8b-a1b"));
  EXPECT_EQ(WithLayers(Shape("lfm2.5-8b-a1b"), 3)->attention_layers, std::vector<uint32_t>{2});
  for (const uint32_t layers : {0u, 1u, 2u, 25u}) {
    EXPECT_EQ(WithLayers(Shape("lfm2.5-8b-a1b"), layers).status().code(), StatusCode::kInvalidArgument) << layers;
  }
}

}  // namespace
}  // namespace estream
