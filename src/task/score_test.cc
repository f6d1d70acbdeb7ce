// SPDX-License-Identifier: Apache-2.0
// Scores against the plain definition, and the passes and rows it took to get them.
#include "task/score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "task/testing/fake_engine.h"

namespace estream {
namespace {

using testing::FakeEngine;
using testing::HashedLogit;
using Ids = std::vector<int32_t>;

// Σ log P by the definition: one distribution per token, no sharing.
double ReferenceScore(const Ids& prompt, const Ids& continuation) {
  Ids before = prompt;
  double total = 0;
  for (int32_t token : continuation) {
    double sum = 0;
    for (uint32_t id = 0; id < testing::kFakeVocabulary; ++id) sum += std::exp(double{HashedLogit(before, id)});
    total += HashedLogit(before, token) - std::log(sum);
    before.push_back(token);
  }
  return total;
}

TEST(LogSumExp, MatchesItsDefinitionAndSurvivesLargeLogits) {
  const float small[] = {0.0f, 1.0f, -2.0f};
  EXPECT_NEAR(LogSumExp(small), std::log(1 + std::exp(1.0) + std::exp(-2.0)), 1e-12);
  const float large[] = {1e4f, 1e4f};
  EXPECT_NEAR(LogSumExp(large), 1e4 + std::log(2.0), 1e-9);
}

TEST(LogSumExp, ImpossibleTokensCountNothing) {
  const float inf = std::numeric_limits<float>::infinity();
  const float one_possible[] = {-inf, 3.0f, -inf};
  EXPECT_EQ(LogSumExp(one_possible), 3.0);
}

TEST(LogSumExp, RowsThatAreNoDistributionGiveNaN) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> rows = {{}, {-inf, -inf}, {inf, 0}, {nan, 0}, {0, nan}, {nan}};
  for (const auto& row : rows) EXPECT_TRUE(std::isnan(LogSumExp(row)));
}

struct PlanCase {
  const char* what;
  std::vector<Ids> continuations;
  uint32_t passes;
  uint32_t rows;
  uint32_t longest_context;
};

TEST(ContinuationPlan, SharesPassesAndRowsBetweenCommonBeginnings) {
  const PlanCase cases[] = {
      {"one token", {{5}}, 1, 1, 0},
      {"one-token labels share everything", {{5}, {6}, {7}}, 1, 1, 0},
      {"a longer one carries the short ones", {{5}, {6, 7}}, 1, 2, 1},
      {"the last token alone differs", {{5, 6}, {5, 7}, {5, 8}}, 1, 2, 1},
      {"the first token differs", {{5, 9}, {6, 9}}, 2, 3, 1},
      {"one begins another", {{5, 6}, {5, 6, 7, 8}}, 1, 4, 3},
      {"a branch in the middle", {{5, 6, 7, 1}, {5, 6, 8, 1}, {5, 9}}, 2, 5, 3},
      {"twice the same", {{5, 6}, {5, 6}}, 1, 2, 1},
  };
  const Ids prompt = {1, 2, 3};
  for (const PlanCase& c : cases) {
    SCOPED_TRACE(c.what);
    const auto plan = ContinuationPlan::Create(c.continuations);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->pass_count(), c.passes);
    EXPECT_EQ(plan->longest_context(), c.longest_context);
    FakeEngine engine(HashedLogit);
    const auto scores = plan->Score(&engine, prompt);
    ASSERT_TRUE(scores.ok()) << scores.status().message();
    EXPECT_EQ(engine.prompts.size(), c.passes);
    EXPECT_EQ(engine.row_count, c.rows);
    for (size_t i = 0; i < c.continuations.size(); ++i) {
      EXPECT_NEAR((*scores)[i], ReferenceScore(prompt, c.continuations[i]), 1e-9) << i;
    }
  }
}

TEST(ContinuationPlan, RandomSetsMatchTheDefinition) {
  const uint32_t seed = 20260906;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<Ids> continuations(1 + random() % 12);
    for (Ids& ids : continuations) {
      ids.resize(1 + random() % 4);
      for (int32_t& id : ids) id = 65 + random() % 3;  // few letters, so that beginnings are shared
    }
    const Ids prompt = {1, static_cast<int32_t>(random() % 256)};
    FakeEngine engine(HashedLogit);
    const auto scores = ContinuationPlan::Create(continuations)->Score(&engine, prompt);
    ASSERT_TRUE(scores.ok());
    for (size_t i = 0; i < continuations.size(); ++i) {
      ASSERT_NEAR((*scores)[i], ReferenceScore(prompt, continuations[i]), 1e-9);
    }
  }
}

TEST(ContinuationPlan, RefusesNothingToScoreAndEmptyContinuations) {
  EXPECT_EQ(ContinuationPlan::Create({}).status().code(), StatusCode::kInvalidArgument);
  const std::vector<Ids> with_empty = {{1}, {}};
  EXPECT_EQ(ContinuationPlan::Create(with_empty).status().code(), StatusCode::kInvalidArgument);
}

TEST(ContinuationPlan, AnEmptyPromptIsAnError) {
  const std::vector<Ids> continuations = {{1}};
  FakeEngine engine(HashedLogit);
  EXPECT_EQ(ContinuationPlan::Create(continuations)->Score(&engine, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST(ContinuationPlan, NaNLogitsAndForeignTokensEndTheRequest) {
  const Ids prompt = {1, 2};
  const std::vector<Ids> inside = {{7}}, outside = {{256}};
  FakeEngine broken([](std::span<const int32_t>, int32_t id) { return id == 9 ? std::nanf("") : 0.0f; });
  EXPECT_EQ(ContinuationPlan::Create(inside)->Score(&broken, prompt).status().code(), StatusCode::kDevice);
  FakeEngine sound(HashedLogit);
  EXPECT_EQ(ContinuationPlan::Create(outside)->Score(&sound, prompt).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace estream
