// SPDX-License-Identifier: Apache-2.0
// Tests of the token tables.
#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/test_vocabulary.h"

namespace estream {
namespace {

using ::testing::HasSubstr;

Vocabulary Build(SpecMaker* maker) {
  Result<Vocabulary> vocabulary = Vocabulary::Build(maker->spec());
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  return std::move(vocabulary).value();
}

TEST(Vocabulary, FindsEveryTokenAndNothingElse) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  for (int i = 0; i < 5000; ++i) maker.Add("token " + std::to_string(i * 7));
  const Vocabulary vocabulary = Build(&maker);
  ASSERT_EQ(vocabulary.size(), 5000u);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(vocabulary.Find("token " + std::to_string(i * 7)), i);
    ASSERT_EQ(vocabulary.Find("token " + std::to_string(i * 7 + 1)), Vocabulary::kNone);
    ASSERT_EQ(vocabulary.text(i), "token " + std::to_string(i * 7));
  }
  EXPECT_EQ(vocabulary.Find(""), Vocabulary::kNone);
  EXPECT_EQ(vocabulary.Find(std::string(100000, 'x')), Vocabulary::kNone);
}

TEST(Vocabulary, OneTokenIsEnough) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.Add("x");
  EXPECT_EQ(Build(&maker).Find("x"), 0);
}

TEST(Vocabulary, EmptyTextsAreGapsAndNeverFound) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.Add("");
  maker.Add("a");
  maker.Add("");
  const Vocabulary vocabulary = Build(&maker);
  EXPECT_EQ(vocabulary.Find("a"), 1);
  EXPECT_EQ(vocabulary.Find(""), Vocabulary::kNone);
}

TEST(Vocabulary, EqualTokensAreRefused) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  for (const char* text : {"a", "b", "c", "b"}) maker.Add(text);
  const Result<Vocabulary> vocabulary = Vocabulary::Build(maker.spec());
  ASSERT_FALSE(vocabulary.ok());
  EXPECT_EQ(vocabulary.status().code(), StatusCode::kCorrupt);
  EXPECT_THAT(vocabulary.status().message(), HasSubstr("tokenizer.ggml.tokens[1] and [3] are both \"b\""));
}

TEST(Vocabulary, OverlongTokensAreRefused) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.Add(std::string(Vocabulary::kMaxTokenBytes, 'x'));
  EXPECT_TRUE(Vocabulary::Build(maker.spec()).ok());
  maker.Add(std::string(Vocabulary::kMaxTokenBytes + 1, 'x'));
  const Result<Vocabulary> vocabulary = Vocabulary::Build(maker.spec());
  ASSERT_FALSE(vocabulary.ok());
  EXPECT_THAT(vocabulary.status().message(), HasSubstr("tokens[1] is 8193 bytes long"));
}

TEST(Vocabulary, MarkersAreReservedWhateverTheFileSays) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  const int32_t end = maker.Add("<|im_end|>", TokenType::kUserDefined);
  const int32_t fim = maker.Add("<|fim_prefix|>", TokenType::kNormal);
  const int32_t own = maker.Add("<|mine|>", TokenType::kUserDefined);
  const Vocabulary vocabulary = Build(&maker);
  EXPECT_TRUE(vocabulary.IsReserved(end));
  EXPECT_TRUE(vocabulary.IsReserved(fim));
  EXPECT_FALSE(vocabulary.IsReserved(own));
}

TEST(Vocabulary, SpelledTokensMeanTheSameAsLettersAndAsText) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.Add("\xC4\xA0the");
  maker.Add("python", TokenType::kUserDefined);
  maker.Add("\xC3\xBF", TokenType::kUserDefined);
  maker.Add("  ", TokenType::kUserDefined);
  maker.Add("<s>", TokenType::kControl);
  const Vocabulary vocabulary = Build(&maker);
  EXPECT_TRUE(vocabulary.IsSpelled(0));
  EXPECT_TRUE(vocabulary.IsSpelled(1));
  EXPECT_FALSE(vocabulary.IsSpelled(2));
  EXPECT_FALSE(vocabulary.IsSpelled(3));
  EXPECT_FALSE(vocabulary.IsSpelled(4));
}

}  // namespace
}  // namespace estream
