// SPDX-License-Identifier: Apache-2.0
// One model of each family through the public interface: streaming from a pack gives the bits of the plain file loaded
// whole, with int8 and with float activations, dense first layers and mixed formats included.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "estream/engine.h"
#include "tests/oracle.h"
#include "tests/pack_rig.h"

namespace estream {
namespace {

using Logits = std::vector<std::vector<float>>;  // of all rows, by prompt

class FamilyStreaming : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    const auto oracle = testing::LoadOracle(Name());
    for (const char* prompt : {"seven", "p64", "one", "seven"}) prompts_.push_back(oracle.at(prompt).tokens());
  }

  static std::string Name() { return std::get<0>(GetParam()); }

  // Every prompt on one engine. Short of an error, which fails the test.
  Logits Run(const std::string& path, const ExpertOptions& experts) const {
    Logits all;
    const auto model = Model::Open(path);
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return all;
    EngineOptions options;
    options.threads = 2;
    options.max_tokens = 64;
    options.activations = std::get<1>(GetParam());
    options.experts = experts;
    const auto engine = Engine::Open(*model, options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    if (!engine.ok()) return all;
    for (const std::vector<int32_t>& prompt : prompts_) {
      std::vector<uint32_t> rows;
      for (uint32_t row = 0; row < prompt.size(); ++row) rows.push_back(row);
      std::vector<float>& logits = all.emplace_back();
      const auto sink = [&logits](uint32_t, std::span<const float> row) {
        logits.insert(logits.end(), row.begin(), row.end());
        return Status::Ok();
      };
      const auto report = (*engine)->Prefill({.tokens = prompt, .rows = rows}, sink);
      EXPECT_TRUE(report.ok()) << report.status().message();
    }
    return all;
  }

  std::vector<std::vector<int32_t>> prompts_;
};

TEST_P(FamilyStreaming, EqualsTheResidentModelBitForBit) {
  const TempDir dir;
  const std::string pack = dir.File("model.pack.gguf");
  ASSERT_TRUE(MakePack(ModelPath(Name()), pack).ok());
  const Logits resident = Run(ModelPath(Name()), {});
  ASSERT_EQ(resident.size(), prompts_.size());
  EXPECT_EQ(resident.front(), resident.back()) << "the same prompt twice";
  const std::tuple<const char*, uint32_t, uint32_t, uint32_t> runs[] = {
      {"stream", 1, 2, 1},    {"stream", 3, 3, 2},        {"stream", 4, 2, 2},
      {"per-layer", 3, 3, 2}, {"after-routing", 1, 2, 2}, {"on-demand", 2, 1, 1},
  };
  for (const auto& [schedule, group, banks, depth] : runs) {
    SCOPED_TRACE(fmt::format("{} G={} B={} Q={}", schedule, group, banks, depth));
    ExpertOptions experts;
    experts.schedule = schedule;
    experts.group_size = group;
    experts.bank_count = banks;
    experts.queue_depth = depth;
    experts.keep_warm = banks == 3;
    EXPECT_EQ(Run(pack, experts), resident);
  }
  ExpertOptions loaded;
  loaded.schedule = "resident";
  EXPECT_EQ(Run(pack, loaded), resident);
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, FamilyStreaming,
                         ::testing::Combine(::testing::Values("olmoe-t-q8_0", "qwen3moe-t-q4_0", "mixtral-t-q4_0",
                                                              "lfm2moe-k-q4_k_m", "deepseek2-k-split-q4_k_m",
                                                              "deepseek2-t-fused-q4_0"),
                                            ::testing::Values("q8", "f32")),
                         [](const auto& info) {
                           std::string name = fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace estream
