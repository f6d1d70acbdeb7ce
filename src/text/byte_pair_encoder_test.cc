// SPDX-License-Identifier: Apache-2.0
// Tests of byte-level BPE, above all against a merger that looks through the whole word for every merge.
#include "text/byte_pair_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "text/test_vocabulary.h"

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Encoder {
  explicit Encoder(SpecMaker* maker, const char* pre = "gpt-2") {
    vocabulary = Vocabulary::Build(maker->spec()).value();
    merges = MergeTable::Build(maker->spec(), vocabulary).value();
    encoder = BytePairEncoder::Build(maker->spec(), vocabulary, *FindPreTokenizer(pre)).value();
  }

  std::vector<int32_t> Encode(std::string_view text) {
    std::vector<int32_t> tokens;
    status = encoder.Encode(vocabulary, text, &scratch, &tokens);
    return tokens;
  }

  // The definition: join the leftmost of the lowest-ranked neighbours until there is none.
  std::vector<int32_t> EncodeWordSlowly(std::string_view word) const {
    std::vector<int32_t> tokens;
    for (const char c : word) tokens.push_back(static_cast<uint8_t>(c));
    while (true) {
      uint32_t best = MergeTable::kNone;
      size_t at = 0;
      for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        const uint32_t rank = merges.Find(tokens[i], tokens[i + 1]);
        if (rank < best) best = rank, at = i;
      }
      if (best == MergeTable::kNone) return tokens;
      tokens[at] = merges.at(best).result;
      tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
  }

  Vocabulary vocabulary;
  MergeTable merges;
  BytePairEncoder encoder;
  BytePairEncoder::Scratch scratch;
  Status status;
};

TEST(BytePairEncoder, LowestRankGoesFirstAndLeftmostAmongEquals) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.AddBytes();
  maker.AddMerge("b", "c");  // 256
  maker.AddMerge("a", "b");  // 257
  maker.AddMerge("a", "a");  // 258
  Encoder e(&maker);
  EXPECT_THAT(e.Encode("abc"), ElementsAre('a', 256));
  EXPECT_THAT(e.Encode("aaa"), ElementsAre(258, 'a'));
  EXPECT_THAT(e.Encode("aaab"), ElementsAre(258, 257));
  EXPECT_THAT(e.Encode(""), ElementsAre());
}

TEST(BytePairEncoder, EqualsTheDefinitionOnRandomVocabularies) {
  constexpr uint32_t kSeed = 20231;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 40; ++round) {
    SpecMaker maker(VocabularyModel::kBytePairs);
    maker.AddBytes();
    std::vector<std::string> texts = {"a", "b", "c", "d"};
    for (int i = 0; i < 60; ++i) {
      const std::string left = texts[random() % texts.size()], right = texts[random() % texts.size()];
      if (left.size() + right.size() > 12) continue;
      maker.AddMerge(left, right);
      texts.push_back(left + right);
    }
    Encoder e(&maker);
    for (int i = 0; i < 50; ++i) {
      std::string word(1 + random() % 70, ' ');
      for (char& c : word) c = static_cast<char>('a' + random() % 4);
      ASSERT_EQ(e.Encode(word), e.EncodeWordSlowly(word)) << word;
    }
  }
}

TEST(BytePairEncoder, WordsAreMergedOneByOne) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.AddBytes();
  maker.AddMerge("a", ",");
  Encoder e(&maker);
  EXPECT_THAT(e.Encode("a,a"), ElementsAre('a', ',', 'a'));
}

TEST(BytePairEncoder, WholeWordsComeBeforeMergesWhereThePreTokenizerSaysSo) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.AddBytes();
  const int32_t python = maker.Add("python", TokenType::kUserDefined);
  const int32_t blank_word = maker.Add("\xC4\xA0word");
  maker.Add("secret", TokenType::kControl);
  Encoder lfm2(&maker, "lfm2"), gpt2(&maker, "gpt-2");
  EXPECT_THAT(lfm2.Encode("python word"), ElementsAre(python, blank_word));
  EXPECT_THAT(lfm2.Encode("word"), ElementsAre('w', 'o', 'r', 'd'));
  EXPECT_EQ(lfm2.Encode("secret").size(), 6u);
  EXPECT_EQ(gpt2.Encode("python").size(), 6u);
}

TEST(BytePairEncoder, BytesThatAreNoUtf8ComeThroughOneByOne) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.AddBytes();
  Encoder e(&maker);
  EXPECT_THAT(e.Encode("\xFF\x80"), ElementsAre(0xFF, 0x80));
}

TEST(BytePairEncoder, ImpossibleBytesThatTheVocabularyLacksBecomeTheReplacementCharacter) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  for (const char* letter : {"\xC3\xAF", "\xC2\xBF", "\xC2\xBD", "a"}) maker.Add(letter);  // EF BF BD a
  maker.Add("\xC3\xBF", TokenType::kUserDefined);                                          // U+00FF itself, not byte FF
  Encoder e(&maker);
  EXPECT_THAT(e.Encode("a\xFF"), ElementsAre(3, 0, 1, 2));
  EXPECT_TRUE(e.status.ok());
}

TEST(BytePairEncoder, OtherMissingBytesAreAnError) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.Add("a");
  Encoder e(&maker);
  EXPECT_THAT(e.Encode("ab"), ElementsAre());
  EXPECT_EQ(e.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(e.status.message(), HasSubstr("no token for byte 0x62"));
  e.Encode("a\xFF");
  EXPECT_THAT(e.status.message(), HasSubstr("no token for byte 0xff"));
}

TEST(BytePairEncoder, LongWordsAreQuick) {
  SpecMaker maker(VocabularyModel::kBytePairs);
  maker.AddBytes();
  for (std::string text = "a"; text.size() <= 64; text += text) maker.AddMerge(text, text);
  Encoder e(&maker);
  EXPECT_EQ(e.Encode(std::string(1 << 20, 'a')).size(), size_t{1} << 13);
  EXPECT_LE(e.scratch.symbols.capacity() * sizeof(BytePairEncoder::Scratch::Symbol) +
                e.scratch.queue.capacity() * sizeof(uint64_t),
            size_t{60} << 20);
}

}  // namespace
}  // namespace estream
