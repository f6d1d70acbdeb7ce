// SPDX-License-Identifier: Apache-2.0
// Tests of the table of merges.
#include "text/merge_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/test_vocabulary.h"

namespace estream {
namespace {

using ::testing::HasSubstr;

struct Tables {
  Vocabulary vocabulary;
  MergeTable merges;
};

Tables Build(SpecMaker* maker) {
  Tables tables;
  tables.vocabulary = Vocabulary::Build(maker->spec()).value();
  Result<MergeTable> merges = MergeTable::Build(maker->spec(), tables.vocabulary);
  EXPECT_TRUE(merges.ok()) << merges.status().message();
  tables.merges = std::move(merges).value();
  return tables;
}

TEST(MergeTable, RanksAreThePlacesInTheList) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  for (const char* text : {"a", "b", "c"}) maker.Add(text);
  maker.AddMerge("b", "c");
  maker.AddMerge("a", "bc");
  maker.AddMerge("b", "c");  // again: the first one counts
  maker.AddMerge("a", "b");
  const Tables t = Build(&maker);
  const auto rank = [&](const char* left, const char* right) {
    return t.merges.Find(t.vocabulary.Find(left), t.vocabulary.Find(right));
  };
  EXPECT_EQ(rank("b", "c"), 0u);
  EXPECT_EQ(rank("a", "bc"), 1u);
  EXPECT_LT(rank("a", "bc"), rank("a", "b"));
  EXPECT_EQ(rank("c", "b"), MergeTable::kNone);
  EXPECT_EQ(t.merges.at(1).result, t.vocabulary.Find("abc"));
  EXPECT_EQ(t.merges.size(), 3u);
}

TEST(MergeTable, ManyPairsAreAllFound) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.AddBytes();
  for (char left = 'a'; left <= 'z'; ++left) {
    for (char right = 'a'; right <= 'z'; ++right) maker.AddMerge({&left, 1}, {&right, 1});
  }
  const Tables t = Build(&maker);
  uint32_t rank = 0;
  for (int32_t left = 'a'; left <= 'z'; ++left) {
    for (int32_t right = 'a'; right <= 'z'; ++right) ASSERT_EQ(t.merges.Find(left, right), rank++);
  }
  EXPECT_EQ(t.merges.Find('A', 'a'), MergeTable::kNone);
}

TEST(MergeTable, MergesThatEndInNoTokenAreLeftOut) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  for (const char* text : {"a", "b", "ab"}) maker.Add(text);
  for (const char* merge : {"a x", "x a", "b a", "a b"}) maker.spec().merges.push_back(merge);
  const Tables t = Build(&maker);
  EXPECT_EQ(t.merges.size(), 1u);
  EXPECT_EQ(t.merges.Find(0, 1), 0u);
}

TEST(MergeTable, PlainTextNeverMergesIntoAControlToken) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  for (const char* text : {"a", "b"}) maker.Add(text);
  maker.Add("ab", TokenType::kControl);
  maker.AddMerge("a", "b");
  EXPECT_EQ(Build(&maker).merges.size(), 0u);
}

TEST(MergeTable, NoMergesAtAllIsAnEmptyTable) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.Add("a");
  EXPECT_EQ(Build(&maker).merges.Find(0, 0), MergeTable::kNone);
  EXPECT_EQ(MergeTable().Find(0, 0), MergeTable::kNone);
}

TEST(MergeTable, RulesWithoutTwoTextsAreRefused) {
  for (const char* merge : {"", " ", "ab", "a ", "ab "}) {
    SpecMaker maker(VocabularyModel::kBytePairs);
    maker.Add("a");
    maker.spec().merges = {"a a", merge};
    const Result<MergeTable> merges = MergeTable::Build(maker.spec(), Vocabulary::Build(maker.spec()).value());
    ASSERT_FALSE(merges.ok()) << merge;
    EXPECT_EQ(merges.status().code(), StatusCode::kCorrupt);
    EXPECT_THAT(merges.status().message(), HasSubstr("made-up: tokenizer.ggml.merges[1] is \""));
  }
}

}  // namespace
}  // namespace estream
