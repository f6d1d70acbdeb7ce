// SPDX-License-Identifier: Apache-2.0
// Classification over scripted logits: which ids are scored, how they are compared, what is refused.
#include "estream/classify.h"

#include <gtest/gtest.h>

#include <cmath>

#include "task/testing/fake_engine.h"

namespace estream {
namespace {

using testing::FakeEngine;

// After anything: 'a' is e² times as likely as the rest; after "a", 'b' is e⁴ times as likely.
float Scripted(std::span<const int32_t> before, int32_t token) {
  if (before.back() == 'a') return token == 'b' ? 4.0f : 0.0f;
  return token == 'a' ? 2.0f : 0.0f;
}

ClassifyOptions Options(std::vector<std::string> labels, std::string prefix = {}, std::string suffix = {}) {
  ClassifyOptions options;
  options.labels = std::move(labels);
  options.label_prefix = std::move(prefix);
  options.label_suffix = std::move(suffix);
  return options;
}

TEST(Classifier, OneTokenLabelsTakeOnePassAndCompareBySoftmax) {
  FakeEngine engine(Scripted);
  auto classifier = Classifier::Create(&engine, Options({"c", "a", "d"}));
  ASSERT_TRUE(classifier.ok());
  const auto result = (*classifier)->Classify("x");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->best, 1u);
  EXPECT_EQ(result->passes, 1u);
  EXPECT_EQ(engine.prompts.size(), 1u);
  EXPECT_EQ(engine.row_count, 1u);
  EXPECT_EQ(result->prompt_tokens, 2u);  // BOS and x
  const double e2 = std::exp(2.0);
  EXPECT_NEAR(result->scores[1].probability, e2 / (e2 + 2), 1e-12);
  EXPECT_NEAR(result->scores[0].probability, 1 / (e2 + 2), 1e-12);
  EXPECT_NEAR(result->scores[1].log_probability, 2 - std::log(e2 + 255), 1e-9);
}

TEST(Classifier, FillsTheTemplateAndScoresPrefixLabelAndSuffix) {
  FakeEngine engine(Scripted);
  ClassifyOptions options = Options({"a", "b"}, " ", "\n");
  options.prompt_template = "<{text}>";
  auto classifier = Classifier::Create(&engine, options);
  ASSERT_TRUE(classifier.ok());
  const auto result = (*classifier)->Classify("{text}");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->scores[0].tokens, (std::vector<int32_t>{' ', 'a', '\n'}));
  const std::string last_pass(engine.prompts.back().begin(), engine.prompts.back().end());
  EXPECT_EQ(last_pass, "\x01<{text}> b");  // the text's own {text} stays; the label's last token is not fed
}

TEST(Classifier, NormalizeComparesPerToken) {
  // "ab" multiplies two likely tokens, "c" is one unlikely token: the sum prefers "c", the mean prefers "ab".
  const auto logits = [](std::span<const int32_t>, int32_t id) { return id == 'a' || id == 'b' ? 1.0f : 0.0f; };
  FakeEngine engine(logits);
  ClassifyOptions options = Options({"c", "ab"});
  EXPECT_EQ((*Classifier::Create(&engine, options))->Classify("x")->best, 0u);
  options.normalize = true;
  const auto result = (*Classifier::Create(&engine, options))->Classify("x");
  EXPECT_EQ(result->best, 1u);
  EXPECT_NEAR(result->scores[1].probability, std::exp(1.0) / (1 + std::exp(1.0)), 1e-12);
}

TEST(Classifier, TheFirstOfEqualsWins) {
  FakeEngine engine([](std::span<const int32_t>, int32_t) { return 0.0f; });
  const auto result = (*Classifier::Create(&engine, Options({"d", "c", "a"})))->Classify("x");
  EXPECT_EQ(result->best, 0u);
  EXPECT_NEAR(result->scores[0].probability, 1.0 / 3, 1e-12);
}

TEST(Classifier, ImpossibleLabelsHaveProbabilitiesAllTheSame) {
  FakeEngine engine([](std::span<const int32_t>, int32_t id) { return id < 'a' ? 0.0f : -INFINITY; });
  const auto one = (*Classifier::Create(&engine, Options({"a", "A"})))->Classify("x");
  EXPECT_EQ(one->best, 1u);
  EXPECT_EQ(one->scores[0].probability, 0.0);
  const auto both = (*Classifier::Create(&engine, Options({"a", "b"})))->Classify("x");
  EXPECT_EQ(both->scores[0].probability, 0.5);
}

TEST(Classifier, RefusesLabelsAndTemplatesThatMakeNoSense) {
  FakeEngine engine(Scripted);
  const std::vector<std::vector<std::string>> bad_labels = {{},         {"a"},     {"a", ""}, {"a", "b", "a"},
                                                            {"y", "Y"}, {"a", "ø"}};
  for (const auto& labels : bad_labels) {
    const auto result = Classifier::Create(&engine, Options(labels));
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << labels.size();
  }
  for (const char* bad_template : {"", "text", "{text}{text}", "{ text }"}) {
    ClassifyOptions options = Options({"a", "b"});
    options.prompt_template = bad_template;
    EXPECT_EQ(Classifier::Create(&engine, options).status().code(), StatusCode::kInvalidArgument) << bad_template;
  }
}

TEST(Classifier, TooLongIsRefusedBeforeAnyPass) {
  FakeEngine engine(Scripted);  // holds 64 tokens
  auto classifier = Classifier::Create(&engine, Options({"a", "ccc"}));
  EXPECT_TRUE((*classifier)->Classify(std::string(61, 'x')).ok());  // BOS + 61 + the first two of ccc
  const size_t passes = engine.prompts.size();
  const Status status = (*classifier)->Classify(std::string(62, 'x')).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine.prompts.size(), passes);
  EXPECT_TRUE((*classifier)->Classify("x").ok());
}

}  // namespace
}  // namespace estream
