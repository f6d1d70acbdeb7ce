// SPDX-License-Identifier: Apache-2.0
// Damaged, odd and unusual model files, from opening to an answer: refused in one sentence, or as good as their base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estream/engine.h"
#include "tests/allocation_probe.h"
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

// The same weights in other containers: merged q, k and v; two files, whichever is named.
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
