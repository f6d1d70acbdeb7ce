// SPDX-License-Identifier: Apache-2.0
// Tests of SentencePiece BPE, above all against a merger that looks through the whole text for every merge.
#include "text/sentence_piece_encoder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "text/test_vocabulary.h"

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMark[] = "\xE2\x96\x81";

void AddByteTokens(SpecMaker* maker) {
  for (int byte = 0; byte < 256; ++byte) maker->Add(fmt::format("<0x{:02X}>", byte), TokenType::kByte);
}

struct PieceEncoder {
  explicit PieceEncoder(SpecMaker* maker) {
    spec = maker->spec();
    vocabulary = Vocabulary::Build(spec).value();
    encoder = SentencePieceEncoder::Build(spec, vocabulary).value();
  }

  std::vector<int32_t> Encode(std::string_view text, bool lead_with_blank = false) {
    std::vector<int32_t> tokens;
    status = encoder.Encode(vocabulary, text, lead_with_blank, &tokens);
    return tokens;
  }

  // The definition: join the leftmost of the best-scored neighbours until there is none. ASCII only, '_' is a blank.
  std::vector<int32_t> EncodeSlowly(const std::string& text) const {
    std::vector<std::string> pieces;
    for (const char c : text) pieces.push_back(c == ' ' ? kMark : std::string(1, c));
    while (true) {
      size_t best = pieces.size();
      float best_score = 0;
      for (size_t i = 0; i + 1 < pieces.size(); ++i) {
        const int32_t token = vocabulary.Find(pieces[i] + pieces[i + 1]);
        if (token == Vocabulary::kNone) continue;
        const float score = spec.scores[static_cast<size_t>(token)];
        if (best == pieces.size() || score > best_score) best = i, best_score = score;
      }
      if (best == pieces.size()) break;
      pieces[best] += pieces[best + 1];
      pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    std::vector<int32_t> tokens;
    for (const std::string& piece : pieces) {
      const int32_t token = vocabulary.Find(piece);
      if (token != Vocabulary::kNone) {
        tokens.push_back(token);
      } else {
        for (const char c : piece) tokens.push_back(static_cast<uint8_t>(c));  // byte tokens come first
      }
    }
    return tokens;
  }

  VocabularySpec spec;
  Vocabulary vocabulary;
  SentencePieceEncoder encoder;
  Status status;
};

TEST(SentencePieceEncoder, HighestScoreGoesFirstAndLeftmostAmongEquals) {
  SpecMaker maker(VocabularyModel::kSentencePiece);
  for (const char* text : {"a", "b", "c", kMark}) maker.Add(text);
  maker.Add("ab", TokenType::kNormal, -2);                     // 4
  maker.Add("bc", TokenType::kNormal, -1);                     // 5
  maker.Add("aa", TokenType::kNormal, -3);                     // 6
  maker.Add(std::string(kMark) + "a", TokenType::kNormal, 0);  // 7
  PieceEncoder e(&maker);
  EXPECT_THAT(e.Encode("abc"), ElementsAre(0, 5));
  EXPECT_THAT(e.Encode("aaa"), ElementsAre(6, 0));
  EXPECT_THAT(e.Encode("abc", true), ElementsAre(7, 5));
  EXPECT_THAT(e.Encode("a a"), ElementsAre(0, 7));
  EXPECT_THAT(e.Encode(""), ElementsAre());
  EXPECT_THAT(e.Encode("", true), ElementsAre(3));
}

TEST(SentencePieceEncoder, EqualsTheDefinitionOnRandomVocabularies) {
  constexpr uint32_t kSeed = 977;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 60; ++round) {
    const bool across_words = round % 2 == 0;  // tokens with a blank inside forbid cutting the text into words
    SpecMaker maker(VocabularyModel::kSentencePiece);
    AddByteTokens(&maker);
    std::vector<std::string> texts = {"a", "b", "c", kMark};
    for (int i = 0; i < 3; ++i) maker.Add(texts[static_cast<size_t>(i)]);
    maker.Add(kMark);
    for (int i = 0; i < 40; ++i) {
      const std::string joined = texts[random() % texts.size()] + texts[random() % texts.size()];
      const bool inside = joined.find(kMark, 1) != std::string::npos;
      if (joined.size() > 14 || (inside && !across_words)) continue;
      if (std::find(texts.begin(), texts.end(), joined) != texts.end()) continue;
      maker.Add(joined, TokenType::kNormal, -static_cast<float>(random() % 20));
      texts.push_back(joined);
    }
    PieceEncoder e(&maker);
    for (int i = 0; i < 40; ++i) {
      std::string text(random() % 50, ' ');
      for (char& c : text) c = "abcd "[random() % 5];
      ASSERT_EQ(e.Encode(text), e.EncodeSlowly(text)) << text;
    }
  }
}

TEST(SentencePieceEncoder, UnknownCharactersBecomeTheirBytes) {
  SpecMaker maker(VocabularyModel::kSentencePiece);
  AddByteTokens(&maker);
  PieceEncoder e(&maker);
  EXPECT_THAT(e.Encode("\xC3\xA9"), ElementsAre(0xC3, 0xA9));
  EXPECT_THAT(e.Encode("\xFF\xE2\x82"), ElementsAre(0xFF, 0xE2, 0x82));
}

TEST(SentencePieceEncoder, WithoutByteTokensTheUnknownTokenStandsIn) {
  SpecMaker maker(VocabularyModel::kSentencePiece);
  maker.spec().unknown = maker.Add("<unk>", TokenType::kUnknown);
  maker.Add("a");
  PieceEncoder e(&maker);
  EXPECT_THAT(e.Encode("ab"), ElementsAre(1, 0));
}

TEST(SentencePieceEncoder, WithoutEitherItIsAnError) {
  SpecMaker maker(VocabularyModel::kSentencePiece);
  maker.Add("a");
  PieceEncoder e(&maker);
  e.Encode("ab");
  EXPECT_EQ(e.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(e.status.message(), HasSubstr("byte 0x62"));
}

TEST(SentencePieceEncoder, PlainTextNeverMergesIntoAControlToken) {
  SpecMaker maker(VocabularyModel::kSentencePiece);
  for (const char* text : {"<", "s", ">", "<s"}) maker.Add(text);
  maker.Add("<s>", TokenType::kControl, 5);
  PieceEncoder e(&maker);
  EXPECT_THAT(e.Encode("<s>"), ElementsAre(3, 2));
}

TEST(SentencePieceEncoder, OneScoreATokenOrItIsRefused) {
  SpecMaker maker(VocabularyModel::kSentencePiece);
  maker.Add("a");
  maker.spec().scores.clear();
  const Vocabulary vocabulary = Vocabulary::Build(maker.spec()).value();
  const Result<SentencePieceEncoder> encoder = SentencePieceEncoder::Build(maker.spec(), vocabulary);
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.status().code(), StatusCode::kCorrupt);
}

TEST(SentencePieceEncoder, ByteTokensAreReadStrictly) {
  SpecMaker maker(VocabularyModel::kSentencePiece);
  const char* texts[] = {"<0x00>", "<0xfF>", "<0xFF>", "<0xG0>", "0x00", "<0x000>"};
  for (const char* text : texts) maker.Add(text, TokenType::kByte);
  maker.Add("<0x41>");
  const Vocabulary vocabulary = Vocabulary::Build(maker.spec()).value();
  const int expected[] = {0, -1, 255, -1, -1, -1, -1};
  for (int32_t id = 0; id < 7; ++id) EXPECT_EQ(SentencePieceEncoder::ByteOfToken(vocabulary, id), expected[id]) << id;
}

}  // namespace
}  // namespace estream
