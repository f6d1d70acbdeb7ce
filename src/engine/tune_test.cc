// SPDX-License-Identifier: Apache-2.0
// Tuning and planning a small pack, the whole way from measuring to an engine's shape.
#include "estream/tune.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "pack/pack_writer.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Tuning : public ::testing::Test {
 protected:
  Tuning() {
    PackOptions pack;
    pack.source = TestData("models/olmoe-m-q4_0.gguf");
    pack.out = dir_.File("m.estream.gguf");
    PackReport report;
    EXPECT_TRUE(PackModel(pack, &report).ok());
    model_ = *Model::Open(pack.out);
    options_.threads = 1;
  }

  TuneReport Tune() {
    TuneOptions tune;
    tune.quick = true;
    const auto report = TuneModel(model_, options_, tune);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : TuneReport();
  }

  TempDir dir_;
  std::shared_ptr<const Model> model_;
  EngineOptions options_;
};

TEST_F(Tuning, AProfileIsWrittenBesideThePackAndFound) {
  std::string note;
  EXPECT_EQ(*LoadProfile(*model_, options_, &note), nullptr);
  EXPECT_EQ(note, "");
  const TuneReport report = Tune();
  EXPECT_EQ(report.path, dir_.File("m.profile.json"));
  EXPECT_FALSE(report.reads.empty());
  EXPECT_FALSE(report.calibrations.empty());
  EXPECT_FALSE(report.predicted.has_value());
  const auto profile = LoadProfile(*model_, options_, &note);
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  ASSERT_NE(*profile, nullptr);
  EXPECT_EQ(ProfileName(**profile), "m.estream.gguf");
}

TEST_F(Tuning, AFullTuneVerifiesItsPrediction) {
  TuneOptions tune;
  tune.lengths = {3, 16, 16, 1 << 20};
  double last = 0;
  std::string phases;
  tune.progress = [&](const char* phase, double share) {
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
    if (!phases.ends_with(phase)) phases += std::string(" ") + phase;
    last = share;
  };
  const auto report = TuneModel(model_, options_, tune);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(phases, " reads experts requests verification");
  EXPECT_EQ(report->skipped_lengths, 1u);
  EXPECT_EQ(report->calibrations.size(), 2u);
  ASSERT_TRUE(report->predicted.has_value());
  EXPECT_EQ(report->predicted->tokens, 16u);
  EXPECT_GT(report->predicted->ttft_s, 0);
  EXPECT_GT(report->measured_ttft_s, 0);
}

TEST_F(Tuning, AProfileOfAnotherDeviceIsNotUsed) {
  Tune();
  EngineOptions other = options_;
  other.activations = "f32";
  std::string note;
  const auto profile = LoadProfile(*model_, other, &note);
  ASSERT_TRUE(profile.ok());
  EXPECT_EQ(*profile, nullptr);
  EXPECT_THAT(note, HasSubstr("m.profile.json: not used: activations was q8, is f32"));
}

TEST_F(Tuning, ABrokenProfileIsRefusedByName) {
  WriteBinary(dir_.File("m.profile.json"), "{\"format\":\"estream-profile\",\"version\":1}");
  std::string note;
  EXPECT_THAT(LoadProfile(*model_, options_, &note).status().message(), HasSubstr("m.profile.json: "));
  Tune();  // replaces it
  EXPECT_TRUE(LoadProfile(*model_, options_, &note).ok());
}

TEST_F(Tuning, WhereThePackCannotBeWrittenBesideTheCacheIsUsed) {
  fs::create_directory(dir_.File("m.profile.json"));  // nothing can be renamed to it
  const std::string cache = dir_.File("cache");
  setenv("ESTREAM_CACHE_DIR", cache.c_str(), 1);
  const TuneReport report = Tune();
  EXPECT_TRUE(report.path.starts_with(cache)) << report.path;
  unsetenv("ESTREAM_CACHE_DIR");
  EXPECT_TRUE(fs::exists(report.path));
}

TEST_F(Tuning, ACancelledTuneLeavesNothing) {
  const std::atomic<bool> cancel{true};
  TuneOptions tune;
  tune.cancel = &cancel;
  EXPECT_EQ(TuneModel(model_, options_, tune).status().code(), StatusCode::kCancelled);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(dir_.path())) ++files;
  EXPECT_EQ(files, 1u) << "the pack";
}

TEST_F(Tuning, TheEngineStreamsAsThePlanSays) {
  Tune();
  std::string note;
  options_.profile = *LoadProfile(*model_, options_, &note);
  options_.max_tokens = 16;
  const auto plan = PlanModel(model_, options_, {16});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->passes.size(), 1u);
  EXPECT_GT(plan->passes[0].ttft_s, 0);
  ASSERT_FALSE(plan->alternatives.empty());
  const auto engine = Engine::Open(model_, options_);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const ExpertShape& chosen = plan->chosen;
  EXPECT_THAT((*engine)->expert_description(),
              HasSubstr("G=" + std::to_string(chosen.group_size) + " B=" + std::to_string(chosen.bank_count) +
                        " Q=" + std::to_string(chosen.queue_depth)));
  uint64_t planned = 0, held = 0;
  for (const MemoryUse& use : plan->memory) {
    if (use.name != "program and tokenizer" && use.name != "reserve for the kernel") planned += use.bytes;
  }
  for (const MemoryUse& use : (*engine)->memory()) held += use.bytes;
  EXPECT_GE(planned, held - 4096 * 2) << "the placement table is a page of its own";
  EXPECT_LE(planned, held);
}

TEST_F(Tuning, WhatTheUserSetsIsKept) {
  Tune();
  std::string note;
  options_.profile = *LoadProfile(*model_, options_, &note);
  options_.experts.group_size = 2;
  options_.experts.bank_count = 5;
  const auto plan = PlanModel(model_, options_, {16});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->chosen.group_size, 2u);
  EXPECT_EQ(plan->chosen.bank_count, 5u);
}

// The refusal names the least memory; exactly that much is enough, and everything then fits the smallest arena.
TEST_F(Tuning, TheFloorIsEnoughAndLessIsRefused) {
  options_.memory_bytes = 1 << 20;
  const auto refused = PlanModel(model_, options_, {16});
  ASSERT_EQ(refused.status().code(), StatusCode::kOverBudget);
  EXPECT_THAT(refused.status().message(), HasSubstr("needs at least "));
  EXPECT_LT(refused.status().message().size(), 300u);
  EXPECT_EQ(Engine::Open(model_, options_).status().code(), StatusCode::kOverBudget);
  uint64_t mib = 0;
  ASSERT_EQ(sscanf(strstr(refused.status().message().c_str(), "least ") + 6, "%lu", &mib), 1);
  options_.memory_bytes = (mib + 2) << 20;  // the test's own memory moves
  const auto plan = PlanModel(model_, options_, {16});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_LE(plan->memory_bytes, options_.memory_bytes);
  options_.max_tokens = 16;
  EXPECT_TRUE(Engine::Open(model_, options_).ok());
}

TEST_F(Tuning, APlainModelIsNotTuned) {
  const auto plain = *Model::Open(TestData("models/olmoe-m-q4_0.gguf"));
  EXPECT_EQ(TuneModel(plain, options_, {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace estream
