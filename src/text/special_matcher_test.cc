// SPDX-License-Identifier: Apache-2.0
// Tests of finding special tokens.
#include "text/special_matcher.h"

#include <gtest/gtest.h>

#include "text/test_vocabulary.h"

namespace estream {
namespace {

class SpecialMatcherTest : public ::testing::Test {
 protected:
  SpecialMatcherTest() : maker_(VocabularyModel::kBytePairs) {
    maker_.Add("<s>");  // ordinary, though it looks special
    maker_.Add("<|a|>", TokenType::kControl);
    maker_.Add("<|a|>b", TokenType::kUserDefined);
    maker_.Add("  ", TokenType::kUserDefined);
    maker_.Add("    ", TokenType::kUserDefined);
    maker_.Add("<unk>", TokenType::kUnknown);
    maker_.Add("x", TokenType::kControl);
    maker_.Add("", TokenType::kControl);
    matcher_ = SpecialMatcher(Vocabulary::Build(maker_.spec()).value());
  }

  void Expect(std::string_view text, size_t at, size_t reserved_end, int32_t token, size_t bytes) {
    const SpecialMatcher::Match match = matcher_.LongestAt(text, at, reserved_end);
    EXPECT_EQ(match.token, token) << text;
    EXPECT_EQ(match.bytes, bytes) << text;
  }

  SpecMaker maker_;
  SpecialMatcher matcher_;
};

TEST_F(SpecialMatcherTest, TakesTheLongestThatBeginsThere) {
  Expect("<|a|>", 0, 100, 1, 5);
  Expect("<|a|>b", 0, 100, 2, 6);
  Expect("<|a|>c", 0, 100, 1, 5);
  Expect("y     z", 1, 100, 4, 4);
  Expect("y   z", 1, 100, 3, 2);
  Expect("y z", 1, 100, Vocabulary::kNone, 0);
  Expect("<unk>", 0, 100, 5, 5);
  Expect("<|a", 0, 100, Vocabulary::kNone, 0);
  Expect("<s>", 0, 100, Vocabulary::kNone, 0);
  Expect("x", 0, 100, 6, 1);
}

TEST_F(SpecialMatcherTest, ReservedTokensMustEndInTime) {
  Expect("<|a|>", 0, 0, Vocabulary::kNone, 0);
  Expect("<|a|>", 0, 4, Vocabulary::kNone, 0);
  Expect("<|a|>", 0, 5, 1, 5);
  Expect("<|a|>b", 0, 0, 2, 6);
  Expect("    ", 0, 0, 4, 4);
  Expect("<unk>", 0, 0, Vocabulary::kNone, 0);
}

TEST(SpecialMatcher, WithoutSpecialTokensNothingMatches) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.Add("a");
  EXPECT_EQ(SpecialMatcher(Vocabulary::Build(maker.spec()).value()).LongestAt("a", 0, 1).bytes, 0u);
  EXPECT_EQ(SpecialMatcher().LongestAt("a", 0, 1).bytes, 0u);
}

}  // namespace
}  // namespace estream
