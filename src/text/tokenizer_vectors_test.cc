// SPDX-License-Identifier: Apache-2.0
// The tokenizer against stored vectors: every vocabulary, every combination of options, and back.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/malformed_cases.h"
#include "tests/test_files.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace estream {
namespace {

struct Stored {
  const char* name;
  bool compressed;
  bool byte_level;
  bool lacks_bytes;  // no tokens for bytes that occur in no UTF-8 text
  bool strips;       // special tokens swallow the blanks after them
  std::optional<int32_t> bos, eos;
  bool add_bos;
};

constexpr Stored kStored[] = {
    {"olmo", true, true, true, false, {}, 50279, false},
    {"gpt-2", true, true, false, false, 50256, 50256, false},
    {"qwen3", true, true, false, false, 151643, 151645, false},
    {"deepseek-llm", true, true, true, false, 100000, 100001, true},
    {"lfm2-style", true, true, false, false, 1, 7, true},
    {"llama-spm", true, false, false, false, 1, 2, true},
    {"phi-3", true, false, false, true, 1, 32000, true},
    {"olmoe-t-q4_0", false, true, false, false, {}, 508, false},
    {"qwen3moe-t-q4_0", false, true, false, false, 504, 506, false},
    {"deepseek2-t-fused-q4_0", false, true, false, false, 507, 508, true},
    {"lfm2moe-t-q4_0", false, true, false, false, 1, 507, true},
    {"mixtral-t-q4_0", false, false, false, false, 1, 2, true},
};

std::string ToText(std::span<const int32_t> tokens) { return fmt::format("{}", fmt::join(tokens, " ")); }

bool IsValidUtf8(std::string_view text) { return ToValidUtf8(text) == text; }

bool HasImpossibleBytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte == 0xC0 || byte == 0xC1 || byte >= 0xF5;
  });
}

std::vector<std::string> LinesOf(const std::string& path) { return SplitText(ReadBinary(TestData(path)), '\n'); }

class TokenizerVectors : public ::testing::TestWithParam<Stored> {
 protected:
  void SetUp() override {
    if (GetParam().compressed && !kCanGunzip) GTEST_SKIP() << "built without zlib";
    const Result<Gguf> gguf = OpenVocabulary(GetParam().name, GetParam().compressed);
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    Result<Tokenizer> tokenizer = Tokenizer::FromGguf(*gguf, {});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    tokenizer_.emplace(std::move(tokenizer).value());
  }

  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options) {
    Result<std::vector<int32_t>> tokens = tokenizer_->Encode(text, options);
    EXPECT_TRUE(tokens.ok()) << tokens.status().message();
    return tokens.ok() ? std::move(tokens).value() : std::vector<int32_t>();
  }

  // What decoding must give back.
  bool MustRoundTrip(const std::string& text, bool parse_special) const {
    if (GetParam().byte_level) return !GetParam().lacks_bytes || !HasImpossibleBytes(text);
    if (GetParam().strips && parse_special) return false;
    return text.find(kBlankMark) == std::string::npos;
  }

  std::optional<Tokenizer> tokenizer_;
};

TEST_P(TokenizerVectors, EncodingGivesTheStoredIdsAndDecodingTheText) {
  size_t compared = 0;
  for (const std::string& line : LinesOf(std::string("tokenizer/vectors/") + GetParam().name + ".tsv")) {
    std::vector<std::string> column = SplitText(line, '\t');
    column.resize(5);  // empty ids at the end are dropped
    const std::string text = BytesFromHex(column[0]);
    for (int i = 0; i < 4; ++i) {
      const EncodeOptions options{.add_special = (i & 1) != 0, .parse_special = (i & 2) != 0};
      const std::vector<int32_t> tokens = Encode(text, options);
      if (!GetParam().byte_level || IsValidUtf8(text)) {
        EXPECT_EQ(ToText(tokens), column[static_cast<size_t>(i) + 1]) << ToPrintable(text) << " options " << i;
        ++compared;
      }
      std::string decoded = text;
      if (options.add_special && tokenizer_->add_bos()) decoded.insert(0, tokenizer_->Piece(*tokenizer_->bos()));
      if (MustRoundTrip(text, options.parse_special)) {
        EXPECT_EQ(tokenizer_->Decode(tokens), decoded) << ToPrintable(text);
      }
    }
  }
  EXPECT_GT(compared, 350u);
}

TEST_P(TokenizerVectors, EndsOfTextsAreAsStored) {
  EXPECT_EQ(tokenizer_->bos(), GetParam().bos);
  EXPECT_EQ(tokenizer_->eos(), GetParam().eos);
  EXPECT_EQ(tokenizer_->add_bos(), GetParam().add_bos);
  EXPECT_FALSE(tokenizer_->add_eos());
}

TEST_P(TokenizerVectors, TablesStaySmall) {
  EXPECT_LT(tokenizer_->bytes(), uint64_t{10} << 20);
  EXPECT_GT(tokenizer_->bytes(), tokenizer_->vocabulary_size());
}

TEST_P(TokenizerVectors, EveryTokenHasAPiece) {
  for (uint32_t id = 0; id < tokenizer_->vocabulary_size(); ++id) {
    ASSERT_NE(tokenizer_->Piece(static_cast<int32_t>(id)), "") << id;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerVectors, ::testing::ValuesIn(kStored), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// A megabyte of one thing: minutes if anything were quadratic, a stack overflow if anything recursed.
TEST(TokenizerLongRuns, AreQuickAndComeBack) {
  if (!kCanGunzip) GTEST_SKIP() << "built without zlib";
  for (const char* name : {"olmo", "qwen3", "deepseek-llm", "llama-spm"}) {
    const Tokenizer tokenizer = Tokenizer::FromGguf(OpenVocabulary(name, true).value(), {}).value();
    for (const std::string_view run : {"a", " ", "\n", "7", "\xCC\x81", "<|"}) {
      std::string text;
      while (text.size() < 1 << 20) text += run;
      const auto tokens = tokenizer.Encode(text, {.add_special = false, .parse_special = true});
      ASSERT_TRUE(tokens.ok()) << tokens.status().message();
      EXPECT_TRUE(tokenizer.Decode(*tokens) == text) << name << ": " << run;
    }
  }
}

TEST(TokenizerUpstream, PublishedTextsGivePublishedIds) {
  if (!kCanGunzip) GTEST_SKIP() << "built without zlib";
  for (const char* name : {"deepseek-llm", "gpt-2", "llama-spm", "phi-3", "qwen3"}) {
    const Tokenizer tokenizer = Tokenizer::FromGguf(OpenVocabulary(name, true).value(), {}).value();
    const std::string texts = ReadBinary(TestData(std::string("tokenizer/upstream/") + name + ".inp"));
    const std::vector<std::string> ids = LinesOf(std::string("tokenizer/upstream/") + name + ".out");
    const std::string separator = "\n__ggml_vocab_test__\n";
    size_t begin = 0;
    for (const std::string& line : ids) {
      ASSERT_LE(begin, texts.size());
      const size_t end = std::min(texts.find(separator, begin), texts.size());
      const std::string text = texts.substr(begin, end - begin);
      const std::vector<int32_t> tokens = tokenizer.Encode(text, {.add_special = false}).value();
      const size_t first = line.find_first_not_of(' ');
      EXPECT_EQ(ToText(tokens), first == std::string::npos ? "" : line.substr(first)) << name << ": " << text;
      begin = end + separator.size();
    }
    EXPECT_EQ(begin, texts.size()) << name;  // every text had its line
  }
}

TEST(TokenizerUpstream, TrainedPromptsGiveTheIdsOfTraining) {
  const Tokenizer tokenizer = Tokenizer::FromGguf(OpenVocabulary("tiny-olmoe", false).value(), {}).value();
  for (const std::string& line : LinesOf("tokenizer/vectors/tiny-olmoe.prompts")) {
    const std::vector<std::string> column = SplitText(line, '\t');
    EXPECT_EQ(ToText(tokenizer.Encode(BytesFromHex(column[0]), {}).value()), column[1]);
  }
}

}  // namespace
}  // namespace estream
