// SPDX-License-Identifier: Apache-2.0
// Facts of models that run, of ones that do not, and of files that are hardly models.
#include "tools/model_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/gguf_builder.h"
#include "tests/memory_file.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using testing::HasSubstr;

ModelFacts FactsOfFile(const std::string& path) {
  const auto file = Gguf::Open(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  return CollectFacts(*file);
}

ModelFacts FactsOfBytes(const GgufBuilder& builder) {
  const auto file = Gguf::Open(std::make_shared<MemoryFile>(builder.Build()));
  EXPECT_TRUE(file.ok()) << file.status().message();
  return CollectFacts(*file);
}

TEST(ModelFacts, ExpertTensorsAreKnownByName) {
  for (const char* name : {"blk.3.ffn_up_exps.weight", "blk.0.ffn_gate_up_exps.weight", "blk.3.ffn_down.17.weight"}) {
    EXPECT_TRUE(IsExpertTensor(name)) << name;
  }
  for (const char* name : {"blk.3.ffn_up.weight", "blk.3.ffn_gate_inp.weight", "blk.3.ffn_down_shexp.weight", "",
                           "blk.3.exp_probs_b.bias", "blk.0.ffn_down."}) {
    EXPECT_FALSE(IsExpertTensor(name)) << name;
  }
}

// Sizes from the model's configuration: 3 layers of 16 experts, 256 x 64, 1021 tokens.
TEST(ModelFacts, AModelThatRunsHasAPlan) {
  const ModelFacts facts = FactsOfFile(TestData("models/olmoe-s-stock_q4_0.gguf"));
  EXPECT_TRUE(facts.runs.ok()) << facts.runs.message();
  EXPECT_FALSE(facts.is_pack);
  EXPECT_EQ(facts.architecture, "olmoe");
  EXPECT_EQ(facts.types.front().type, "Q4_0");
  EXPECT_EQ(facts.expert_bytes, 3u * 16 * 3 * 256 * 64 / 32 * 18);
  uint64_t all = 0;
  for (const TypeTotal& total : facts.types) all += total.bytes;
  EXPECT_EQ(facts.expert_bytes + facts.other_bytes, all);

  ASSERT_TRUE(facts.plan.has_value());
  EXPECT_EQ(facts.plan->sparse_layers, 3u);
  EXPECT_EQ(facts.plan->experts, 16u);
  ASSERT_EQ(facts.plan->classes.size(), 1u);
  EXPECT_EQ(facts.plan->classes[0].records, 3u * 16);
  EXPECT_EQ(facts.plan->expert_stride, facts.plan->classes[0].spec.record_bytes);
  EXPECT_EQ(facts.plan->embedding_bytes, 1021u * 256 / 32 * 18);
  EXPECT_EQ(facts.tokenizer.model, "gpt2");
  EXPECT_EQ(facts.tokenizer.tokens, 1021u);
}

TEST(ModelFacts, MixedFormatsGiveSeveralClasses) {
  const ModelFacts facts = FactsOfFile(TestData("models/olmoe-k-q4_k_m.gguf"));
  ASSERT_TRUE(facts.plan.has_value());
  ASSERT_EQ(facts.plan->classes.size(), 2u);
  EXPECT_EQ(facts.plan->classes[0].records + facts.plan->classes[1].records, 2u * 4);
}

TEST(ModelFacts, ASplitSetIsOneModel) {
  const ModelFacts facts = FactsOfFile(TestData("layouts/olmoe-m-q4_0-00002-of-00002.gguf"));
  EXPECT_EQ(facts.files, 2u);
  EXPECT_TRUE(facts.runs.ok()) << facts.runs.message();
}

TEST(ModelFacts, AnEmptyContainerIsListedAndDoesNotRun) {
  const ModelFacts facts = FactsOfBytes(GgufBuilder());
  EXPECT_FALSE(facts.runs.ok());
  EXPECT_EQ(facts.architecture, "");
  EXPECT_TRUE(facts.types.empty());
  EXPECT_FALSE(facts.plan.has_value());
}

TEST(ModelFacts, OtherArchitecturesAndTypesSayWhyTheyDoNotRun) {
  GgufBuilder builder;
  builder.String("general.architecture", "mamba").U32("general.name", 7);
  builder.Tensor("x", {256}, 16, std::string(66, '\0'));
  const ModelFacts facts = FactsOfBytes(builder);
  EXPECT_THAT(facts.runs.message(), HasSubstr("mamba"));
  EXPECT_EQ(facts.name, "") << "a name that is no text is no name";
  ASSERT_EQ(facts.types.size(), 1u);
  EXPECT_EQ(facts.types[0].type, "IQ2_XXS");
  EXPECT_EQ(facts.other_bytes, 66u);
}

TEST(ModelFacts, AFileThatClaimsToBeAPackSaysWhatIsWrong) {
  GgufBuilder builder;
  builder.String("general.architecture", "estream").U32("estream.version", 1);
  TempDir dir;
  WriteBinary(dir.File("broken.gguf"), builder.Build());
  const ModelFacts facts = FactsOfFile(dir.File("broken.gguf"));
  EXPECT_TRUE(facts.is_pack);
  EXPECT_FALSE(facts.runs.ok());
  EXPECT_THAT(facts.runs.message(), HasSubstr("broken.gguf"));
}

}  // namespace
}  // namespace estream
