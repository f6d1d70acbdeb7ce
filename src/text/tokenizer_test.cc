// SPDX-License-Identifier: Apache-2.0
// Tests of the tokenizer as a whole: choosing parts, special tokens, joining parts of a text, refusing.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/malformed_cases.h"
#include "text/test_vocabulary.h"
#include "text/utf8.h"

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Bytes 0-255, then: "<s>" 256 (beginning), "</s>" 257 (end), "  " 258 (user-defined), "ab" 259 (merge).
class ByteLevel : public ::testing::Test {
 protected:
  ByteLevel() : maker_(VocabularyModel::kBytePairs) {
    maker_.AddBytes();
    maker_.spec().bos = maker_.Add("<s>", TokenType::kControl);
    maker_.spec().eos = maker_.Add("</s>", TokenType::kControl);
    maker_.Add("  ", TokenType::kUserDefined);
    maker_.AddMerge("a", "b");
    maker_.spec().pre = "olmo";
    maker_.spec().add_bos = true;
  }

  Tokenizer Make(const TokenizerOptions& options = {}) {
    Result<Tokenizer> tokenizer = Tokenizer::FromSpec(maker_.spec(), options);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    return std::move(tokenizer).value();
  }

  void ExpectRefused(const TokenizerOptions& options, StatusCode code, const std::string& message) {
    const Result<Tokenizer> tokenizer = Tokenizer::FromSpec(maker_.spec(), options);
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.status().code(), code);
    EXPECT_THAT(tokenizer.status().message(), HasSubstr(message));
    EXPECT_LT(tokenizer.status().message().size(), 300u);
  }

  SpecMaker maker_;
};

std::vector<int32_t> Encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  return tokenizer.Encode(text, options).value();
}

TEST_F(ByteLevel, AddsWhatTheFileAsksForAndOnlyOnRequest) {
  maker_.spec().add_eos = true;
  const Tokenizer tokenizer = Make();
  EXPECT_THAT(Encode(tokenizer, "ab", {}), ElementsAre(256, 259, 257));
  EXPECT_THAT(Encode(tokenizer, "", {}), ElementsAre(256, 257));
  EXPECT_THAT(Encode(tokenizer, "ab", {.add_special = false}), ElementsAre(259));
  EXPECT_THAT(Encode(tokenizer, "", {.add_special = false}), ElementsAre());
}

TEST_F(ByteLevel, ControlTokensInTextArePlainTextUnlessParsed) {
  const Tokenizer tokenizer = Make();
  EXPECT_THAT(Encode(tokenizer, "<s>", {.add_special = false}), ElementsAre('<', 's', '>'));
  EXPECT_THAT(Encode(tokenizer, "x<s>", {.add_special = false, .parse_special = true}), ElementsAre('x', 256));
}

TEST_F(ByteLevel, UserDefinedTokensAreFoundAlways) {
  const Tokenizer tokenizer = Make();
  EXPECT_THAT(Encode(tokenizer, "a   b", {.add_special = false}), ElementsAre('a', 258, ' ', 'b'));
}

TEST_F(ByteLevel, TwoBeginningsAreGivenAsAskedAndCanBeDetected) {
  const Tokenizer tokenizer = Make();
  const std::vector<int32_t> twice = Encode(tokenizer, "<s>a", {.parse_special = true});
  EXPECT_THAT(twice, ElementsAre(256, 256, 'a'));
  EXPECT_TRUE(tokenizer.BeginsTwice(twice));
  EXPECT_FALSE(tokenizer.BeginsTwice(Encode(tokenizer, "a", {})));
  EXPECT_FALSE(tokenizer.BeginsTwice(Encode(tokenizer, "", {})));
  EXPECT_FALSE(tokenizer.BeginsTwice({}));
}

TEST_F(ByteLevel, PartsAreOneTextButForControlTokens) {
  const Tokenizer tokenizer = Make();
  const auto encode = [&](std::vector<TextPart> parts) {
    return tokenizer.Encode(std::span<const TextPart>(parts), {.add_special = false}).value();
  };
  EXPECT_THAT(encode({}), ElementsAre());
  EXPECT_THAT(encode({{"a"}, {"b"}}), ElementsAre(259));
  EXPECT_THAT(encode({{"a "}, {" b"}}), ElementsAre('a', 258, 'b'));
  EXPECT_THAT(encode({{"<s>", true}, {"<s>", false}, {"<s>", true}}), ElementsAre(256, '<', 's', '>', 256));
  EXPECT_THAT(encode({{"<", true}, {"s>", true}}), ElementsAre('<', 's', '>'));
  EXPECT_THAT(encode({{"", true}, {"<s", true}, {">", false}, {""}}), ElementsAre('<', 's', '>'));
}

TEST_F(ByteLevel, AnyBytesComeBack) {
  constexpr uint32_t kSeed = 31337;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (const char* pre : {"olmo", "qwen2", "deepseek-llm", "lfm2"}) {
    const Tokenizer tokenizer = Make({.override_pre = pre});
    for (int round = 0; round < 500; ++round) {
      std::string text(random() % 64, '\0');
      for (char& c : text) c = random() % 2 == 0 ? static_cast<char>(random()) : "ab <s>/ \n\xC3\xA9"[random() % 12];
      const bool parse = round % 2 == 0;
      EXPECT_EQ(tokenizer.Decode(Encode(tokenizer, text, {.add_special = false, .parse_special = parse})), text);
    }
  }
}

TEST_F(ByteLevel, PiecesAreBytesAndIdsOutsideGiveNothing) {
  const Tokenizer tokenizer = Make();
  EXPECT_EQ(tokenizer.Piece(0xFF), "\xFF");
  EXPECT_EQ(tokenizer.Piece(259), "ab");
  EXPECT_EQ(tokenizer.Piece(256), "<s>");
  EXPECT_EQ(tokenizer.Piece(-1), "");
  EXPECT_EQ(tokenizer.Piece(260), "");
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{'x', -5, 1000000, 'y'}), "xy");
  EXPECT_EQ(tokenizer.FindToken("</s>"), 257);
  EXPECT_EQ(tokenizer.FindToken("</S>"), std::nullopt);
}

TEST_F(ByteLevel, UnknownPreTokenizersAreRefusedByNameWithTheWayOut) {
  maker_.spec().pre = "mystery";
  ExpectRefused({}, StatusCode::kUnsupported,
                "made-up: tokenizer.ggml.pre \"mystery\" is not supported; known: gpt-2, olmo, qwen2");
  ExpectRefused({}, StatusCode::kUnsupported, "; --override-pre NAME chooses one");
  EXPECT_THAT(Encode(Make({.override_pre = "gpt-2"}), "ab", {}), ElementsAre(256, 259));
}

TEST_F(ByteLevel, MissingPreTokenizersAreRefusedToo) {
  maker_.spec().pre.reset();
  ExpectRefused({}, StatusCode::kUnsupported, "made-up: tokenizer.ggml.pre is missing; known: gpt-2, ");
  EXPECT_EQ(Make({.override_pre = "qwen2"}).vocabulary_size(), 260u);
}

TEST_F(ByteLevel, UnknownOverridesAreRefused) {
  ExpectRefused({.override_pre = "mystery"}, StatusCode::kInvalidArgument,
                "--override-pre \"mystery\" is not a known pre-tokenizer; known: gpt-2");
}

TEST_F(ByteLevel, PromisedTokensMustExist) {
  maker_.spec().bos.reset();
  ExpectRefused({}, StatusCode::kCorrupt, "add_bos_token is set, but there is no bos_token_id");
  maker_.spec().add_bos = false;
  maker_.spec().add_eos = true;
  maker_.spec().eos.reset();
  ExpectRefused({}, StatusCode::kCorrupt, "add_eos_token is set, but there is no eos_token_id");
}

TEST_F(ByteLevel, Lfm2BeginsTextsUnlessTheFileSaysNo) {
  maker_.spec().pre = "lfm2";
  maker_.spec().add_bos.reset();
  EXPECT_TRUE(Make().add_bos());
  EXPECT_FALSE(Make({.override_pre = "olmo"}).add_bos());
  maker_.spec().add_bos = false;
  EXPECT_FALSE(Make().add_bos());
  maker_.spec().add_bos.reset();
  maker_.spec().bos.reset();
  EXPECT_FALSE(Make().add_bos());
}

TEST_F(ByteLevel, BytesWithoutATokenAreAnError) {
  maker_.spec().tokens[static_cast<size_t>('z')] = "zz";
  const Result<std::vector<int32_t>> tokens = Make().Encode("az", {});
  ASSERT_FALSE(tokens.ok());
  EXPECT_EQ(tokens.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ByteLevel, OverlongTextsAreRefused) {
  const Tokenizer tokenizer = Make();
  const std::string text(1 << 20, 'a');
  const std::vector<TextPart> parts(1025, TextPart{text});
  const auto tokens = tokenizer.Encode(std::span<const TextPart>(parts), {});
  ASSERT_FALSE(tokens.ok());
  EXPECT_EQ(tokens.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(tokens.status().message(), HasSubstr("longer than 1073741824 bytes"));
}

// "<unk>" 0, "<s>" 1, "</s>" 2, blank 3, "a" 4, blank a 5, two blanks 6.
class SentencePiece : public ::testing::Test {
 protected:
  SentencePiece() : maker_(VocabularyModel::kSentencePiece) {
    maker_.spec().unknown = maker_.Add("<unk>", TokenType::kUnknown);
    maker_.spec().bos = maker_.Add("<s>", TokenType::kControl);
    maker_.spec().eos = maker_.Add("</s>", TokenType::kControl);
    maker_.Add(kBlankMark);
    maker_.Add("a");
    maker_.Add(std::string(kBlankMark) + "a", TokenType::kNormal, -1);
    maker_.Add(std::string(kBlankMark) + std::string(kBlankMark), TokenType::kNormal, -2);
  }
  SpecMaker maker_;
};

TEST_F(SentencePiece, PutsABlankInFrontOfTextAfterSpecialTokens) {
  const Tokenizer tokenizer = Tokenizer::FromSpec(maker_.spec(), {}).value();
  EXPECT_THAT(Encode(tokenizer, "a a", {}), ElementsAre(1, 5, 5));
  EXPECT_THAT(Encode(tokenizer, "a<s>a", {.add_special = false, .parse_special = true}), ElementsAre(5, 1, 5));
  EXPECT_THAT(Encode(tokenizer, "", {}), ElementsAre(1));
  EXPECT_THAT(Encode(tokenizer, "a a", {.add_special = false, .blank_prefix = false}), ElementsAre(4, 5));
}

TEST_F(SentencePiece, DecodingTakesThatBlankAway) {
  const Tokenizer tokenizer = Tokenizer::FromSpec(maker_.spec(), {}).value();
  for (const char* text : {"", "a", " a", "  a a", "<s>a", "a<s> a</s>", "   "}) {
    const std::vector<int32_t> tokens = Encode(tokenizer, text, {.add_special = false, .parse_special = true});
    EXPECT_EQ(tokenizer.Decode(tokens), text);
  }
  EXPECT_EQ(tokenizer.Piece(5), " a");
}

TEST_F(SentencePiece, TheFileMayForbidTheBlank) {
  maker_.spec().add_space_prefix = false;
  const Tokenizer tokenizer = Tokenizer::FromSpec(maker_.spec(), {}).value();
  EXPECT_THAT(Encode(tokenizer, "a", {}), ElementsAre(1, 4));
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{5}), " a");
}

TEST_F(SentencePiece, HasNoPreTokenizerToOverride) {
  maker_.spec().pre = "whatever";
  EXPECT_TRUE(Tokenizer::FromSpec(maker_.spec(), {}).ok());
  const Result<Tokenizer> tokenizer = Tokenizer::FromSpec(maker_.spec(), {.override_pre = "olmo"});
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SentencePiece, Phi3SpecialTokensSwallowTheBlanksAfterThem) {
  maker_.Add("<|user|>", TokenType::kControl);
  maker_.spec().model_name = "Phi-3 mini";
  const Tokenizer tokenizer = Tokenizer::FromSpec(maker_.spec(), {}).value();
  const EncodeOptions options{.add_special = false, .parse_special = true};
  EXPECT_THAT(Encode(tokenizer, "<|user|> \n  a", options), ElementsAre(7, 5));
  EXPECT_THAT(Encode(tokenizer, "<s>  a", options), ElementsAre(1, 6, 5));
  EXPECT_THAT(Encode(tokenizer, "<|user|>  ", options), ElementsAre(7));
}

TEST(TokenizerFiles, DamagedVocabulariesAreRefusedByName) {
  const std::pair<const char*, const char*> expected[] = {
      {"vocab-missing", "key \"tokenizer.ggml.tokens\" is missing"},
      {"vocab-empty", "tokenizer.ggml.tokens has 0 entries"},
      {"vocab-wrong-type", "key \"tokenizer.ggml.tokens\" is an array of 293 i32"},
      {"vocab-type-count", "\"tokenizer.ggml.token_type\" has "},
      {"vocab-duplicate-token", "are both "},
      {"merges-missing", "key \"tokenizer.ggml.merges\" is missing"},
      {"merges-no-space", "expected two texts with a space between"},
      {"merges-numbers", "key \"tokenizer.ggml.merges\" is an array of"},
      {"bos-out-of-range", "tokenizer.ggml.bos_token_id"},
      {"eos-out-of-range", "tokenizer.ggml.eos_token_id"},
      {"tokenizer-unknown", "tokenizer.ggml.model \"mystery\" is not supported"},
      {"pre-unknown", "tokenizer.ggml.pre \"mystery\" is not supported"},
  };
  const TempDir folder;
  size_t found = 0;
  for (const MalformedCase& c : MalformedCases()) {
    for (const auto& [name, message] : expected) {
      if (c.name != name) continue;
      ++found;
      const Result<Gguf> gguf = Gguf::Open(MakeMalformed(c, folder));
      ASSERT_TRUE(gguf.ok()) << c.name << ": " << gguf.status().message();
      const Result<Tokenizer> tokenizer = Tokenizer::FromGguf(*gguf, {});
      ASSERT_FALSE(tokenizer.ok()) << c.name;
      EXPECT_THAT(tokenizer.status().message(), HasSubstr(message)) << c.name;
      EXPECT_THAT(tokenizer.status().message(), HasSubstr(c.name + ".gguf")) << c.name;
      EXPECT_LT(tokenizer.status().message().size(), 300u) << c.name;
    }
  }
  EXPECT_EQ(found, std::size(expected));
}

}  // namespace
}  // namespace estream
