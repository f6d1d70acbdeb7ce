// SPDX-License-Identifier: Apache-2.0
// Damaged, odd and unusual model files, from opening to an answer: refused in one sentence, or as good as their base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "estream/engine.h"
#include "format/gguf.h"
#include "tests/allocation_probe.h"
#include "tests/gguf_edit.h"
#include "tests/malformed_cases.h"

namespace estream {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMostAtOnce = 64 << 20;  // bytes of one allocation, whatever a file claims

// Opens a model, loads it and runs three tokens, as `estream run --no-pack-cache` does.
Result<std::vector<float>> Answer(const std::string& path) {
  const auto model = Model::Open(path);
  if (!model.ok()) return model.status();
  EngineOptions options;
  options.threads = 1;
  options.max_tokens = 3;
  const auto engine = Engine::Open(*model, options);
  if (!engine.ok()) return engine.status();
  std::vector<float> all;
  const int32_t tokens[] = {2, 5, 7};
  const auto report = (*engine)->Prefill({.tokens = tokens, .rows = {}}, [&](uint32_t, std::span<const float> logits) {
    all.assign(logits.begin(), logits.end());
    return Status::Ok();
  });
  if (!report.ok()) return report.status();
  return all;
}

TEST(MalformedModels, AreRefusedInOneSentenceOrAnswerAsTheirBase) {
  const TempDir folder;
  for (const MalformedCase& c : MalformedCases()) {
    SCOPED_TRACE(c.name + ": " + c.what);
    const std::string path = MakeMalformed(c, folder);
    ResetLargestAllocation();
    const auto answer = Answer(path);
    EXPECT_LT(LargestAllocation(), kMostAtOnce);
    if (c.expectation == "accept") {
      const auto base = Answer(TestData("models/" + c.base + ".gguf"));
      ASSERT_TRUE(base.ok()) << base.status().message();
      EXPECT_TRUE(answer.ok()) << answer.status().message();
      if (answer.ok()) {
        EXPECT_EQ(*answer, *base);
      }
      continue;
    }
    if (c.expectation == "reject") {
      EXPECT_FALSE(answer.ok());
    }
    if (answer.ok()) continue;
    const std::string message = answer.status().message();
    EXPECT_LT(message.size(), 300u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    // Routing that meets NaN names the layer; everything else is found in the file and names it.
    if (answer.status().code() != StatusCode::kDevice) {
      EXPECT_THAT(message, HasSubstr(c.name + ".gguf"));
    }
  }
}

// What must be named when a case of a base other than OLMoE is refused.
TEST(MalformedModels, OfOtherFamiliesNameWhatIsWrong) {
  const std::pair<const char*, const char*> expected[] = {
      {"mla-lora-wrong", "tensor \"blk.0.attn_kv_a_norm.weight\" has shape [32], expected [64]"},
      {"mla-lora-missing", "key \"deepseek2.attention.kv_lora_rank\" is missing"},
      {"mla-key-is-rope", "key_length 16, rope.dimension_count 16"},
      {"mla-rope-exceeds", "key_length 48, rope.dimension_count 64"},
      {"mla-half-split", "tensor \"blk.1.attn_kv_b.weight\" is missing"},
      {"dense-exceeds-blocks", "key \"deepseek2.leading_dense_block_count\" is 5"},
      {"shared-count-2", "tensor \"blk.1.ffn_gate_shexp.weight\" has shape [32, 32], expected [32, 64]"},
      {"yarn-factor-0", "key \"deepseek2.rope.scaling.factor\" is 0"},
      {"yarn-type-unknown", "rope scaling \"spiral\""},
      {"kv-array-short", "key \"lfm2moe.attention.head_count_kv\" has 2 values for 3 layers"},
      {"kv-array-long", "key \"lfm2moe.attention.head_count_kv\" has 4 values for 3 layers"},
      {"kv-array-swapped", "tensor \"blk.0.attn_q_norm.weight\" is missing"},
      {"kv-array-floats", "key \"lfm2moe.attention.head_count_kv\""},
      {"kv-array-negative", "key \"lfm2moe.attention.head_count_kv\""},
      {"conv-cache-0", "key \"lfm2moe.shortconv.l_cache\" is 0"},
      {"conv-cache-4", "tensor \"blk.0.shortconv.conv.weight\" has shape [3, 32], expected [4, 32]"},
      {"gating-99", "expert_gating_func is 99"},
      {"no-expert-bias", "tensor \"blk.1.exp_probs_b.bias\" is missing"},
  };
  const TempDir folder;
  size_t found = 0;
  for (const MalformedCase& c : MalformedCases()) {
    if (c.base.starts_with("olmoe")) continue;
    const auto row = std::find_if(std::begin(expected), std::end(expected), [&](auto& e) { return c.name == e.first; });
    ASSERT_NE(row, std::end(expected)) << "no row for " << c.name;
    ++found;
    EXPECT_THAT(Answer(MakeMalformed(c, folder)).status().message(), HasSubstr(row->second)) << c.name;
  }
  EXPECT_EQ(found, std::size(expected));
}

// The mistakes that every family must find in its own files.
class FamilyMistakes : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  // The sentence about a base model after `change`.
  std::string Says(const std::function<void(GgufEdit*, const std::string&)>& change) const {
    const auto [architecture, base] = GetParam();
    GgufEdit edit(ReadBinary(Path()));
    change(&edit, std::string(architecture) + ".");
    const std::string changed = folder_.File("changed.gguf");
    WriteBinary(changed, edit.bytes());
    const auto answer = Answer(changed);
    EXPECT_FALSE(answer.ok());
    const std::string message = answer.status().message();
    EXPECT_LT(message.size(), 300u);
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }

  static std::string Path() { return TestData("models/" + std::string(GetParam().second) + ".gguf"); }

  const TempDir folder_;
};

TEST_P(FamilyMistakes, AreOneClearSentence) {
  const std::string key = std::string(GetParam().first) + ".";
  EXPECT_THAT(Says([](GgufEdit* e, const std::string& k) { e->SetU32(k + "expert_group_count", 2); }),
              HasSubstr("changed.gguf: expert_group_count is 2"));
  EXPECT_THAT(Says([](GgufEdit* e, const std::string& k) { e->SetU32(k + "expert_used_count", 1000); }),
              HasSubstr("changed.gguf: key \"" + key + "expert_used_count\" is 1000"));
  EXPECT_THAT(Says([](GgufEdit* e, const std::string& k) { e->SetU32(k + "expert_gating_func", 7); }),
              HasSubstr("changed.gguf: expert_gating_func is 7"));
  // Layer 2 is sparse in all of them but the smallest, whose last layer it is.
  const std::string layer =
      Gguf::Open(Path())->FindTensor("blk.2.ffn_gate_inp.weight") != nullptr ? "blk.2." : "blk.1.";
  for (const std::string& name :
       {layer + "ffn_gate_inp.weight", layer + "ffn_down_exps.weight", layer + "ffn_norm.weight"}) {
    EXPECT_THAT(Says([&](GgufEdit* e, const std::string&) { e->HideTensor(name); }),
                HasSubstr("changed.gguf: tensor \"" + name + "\" is missing"));
  }
  EXPECT_THAT(Says([&](GgufEdit* e, const std::string&) { e->TransposeTensor(layer + "ffn_gate_inp.weight"); }),
              HasSubstr("changed.gguf: tensor \"" + layer + "ffn_gate_inp.weight\" has shape"));
}

TEST_P(FamilyMistakes, ARouterOfNanNamesItsLayer) {
  const Result<Gguf> gguf = Gguf::Open(Path());
  ASSERT_TRUE(gguf.ok());
  const GgufTensor* router = gguf->FindTensor("blk.1.ffn_gate_inp.weight");
  ASSERT_NE(router, nullptr);
  ASSERT_EQ(router->gguf_type, 0u) << "stored as float32";
  const std::string message = Says([&](GgufEdit* e, const std::string&) {
    for (uint64_t at = 0; at < router->bytes; at += 4)
      e->Write(router->offset + at, std::numeric_limits<float>::quiet_NaN());
  });
  EXPECT_THAT(message, ::testing::AnyOf(HasSubstr("layer 1"), HasSubstr("blk.1"))) << message;
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, FamilyMistakes,
                         ::testing::Values(std::pair("olmoe", "olmoe-m-q4_0"), std::pair("qwen3moe", "qwen3moe-m-q4_0"),
                                           std::pair("llama", "mixtral-m-q4_0"), std::pair("lfm2moe", "lfm2moe-m-q4_0"),
                                           std::pair("deepseek2", "deepseek2-m-fused-q4_0")),
                         [](const auto& family) { return std::string(family.param.first); });

// The same weights in other containers: merged gate and up; one tensor an expert.
TEST(MalformedModels, OtherTensorsForExpertsAnswerAsTheirBase) {
  const TempDir folder;
  for (const auto& [base_name, name] : {std::pair("deepseek2-m-fused-q4_0", "deepseek2-m-q4_0-gateup"),
                                        std::pair("mixtral-t-q4_0", "mixtral-t-q4_0-per-expert")}) {
    const std::string path = folder.File(std::string(name) + ".gguf");
    WriteBinary(path, BytesFromRecipe("layouts", base_name, name));
    const auto base = Answer(TestData("models/" + std::string(base_name) + ".gguf"));
    ASSERT_TRUE(base.ok()) << base.status().message();
    const auto answer = Answer(path);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(*answer, *base) << name;
  }
}

// Merged q, k and v; two files, whichever is named.
TEST(MalformedModels, OtherLayoutsAnswerAsTheirBase) {
  const auto base = Answer(TestData("models/olmoe-m-q4_0.gguf"));
  ASSERT_TRUE(base.ok()) << base.status().message();
  for (const char* name : {"olmoe-m-q4_0-qkv", "olmoe-m-q4_0-00001-of-00002", "olmoe-m-q4_0-00002-of-00002"}) {
    const auto answer = Answer(TestData("layouts/" + std::string(name) + ".gguf"));
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(*answer, *base) << name;
  }
  const TempDir alone;
  const std::string second = alone.File("olmoe-m-q4_0-00002-of-00002.gguf");
  WriteBinary(second, ReadBinary(TestData("layouts/olmoe-m-q4_0-00002-of-00002.gguf")));
  EXPECT_THAT(Answer(second).status().message(), HasSubstr("olmoe-m-q4_0-00001-of-00002.gguf"));
}

}  // namespace
}  // namespace estream
