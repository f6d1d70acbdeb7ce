// SPDX-License-Identifier: Apache-2.0
// Tests of reading the tokenizer's metadata: what is wrong is refused with the file and the key.
#include "text/vocabulary_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>

#include "format/gguf_writer.h"
#include "tests/malformed_cases.h"
#include "text/test_vocabulary.h"

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void SetI32s(GgufWriter* writer, const char* key, std::vector<int32_t> values) {
  writer->SetArray<int32_t>(key, values);
}

// A sound vocabulary of three tokens.
void SetSound(GgufWriter* writer, const char* model) {
  const std::string tokens[] = {"a", "b", "ab"}, merges[] = {"a b"};
  const float scores[] = {0, -1, -2};
  writer->SetString("tokenizer.ggml.model", model);
  writer->SetString("tokenizer.ggml.pre", "olmo");
  writer->SetStrings("tokenizer.ggml.tokens", tokens);
  SetI32s(writer, "tokenizer.ggml.token_type", {1, 3, 4});
  writer->SetArray<float>("tokenizer.ggml.scores", scores);
  writer->SetStrings("tokenizer.ggml.merges", merges);
}

struct Read {
  explicit Read(const GgufWriter& writer) {
    const std::vector<std::byte> header = writer.Header();
    std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
    gguf.emplace(Gguf::Open(std::make_shared<StringFile>("made-up.gguf", std::move(bytes))));
    EXPECT_TRUE(gguf->ok()) << gguf->status().message();
    spec.emplace(ReadVocabularySpec(**gguf));
  }
  std::optional<Result<Gguf>> gguf;  // the spec's views point into it
  std::optional<Result<VocabularySpec>> spec;
};

TEST(VocabularySpec, ReadsEverythingThere) {
  GgufWriter writer;
  SetSound(&writer, "gpt2");
  writer.SetString("general.name", "Some Model");
  writer.SetU32("tokenizer.ggml.bos_token_id", 1);
  writer.SetU64("tokenizer.ggml.eos_token_id", 2);
  writer.SetI32("tokenizer.ggml.unknown_token_id", 0);
  writer.SetBool("tokenizer.ggml.add_bos_token", true);
  writer.SetBool("tokenizer.ggml.add_eos_token", false);
  const Read read(writer);
  ASSERT_TRUE(read.spec->ok()) << read.spec->status().message();
  const VocabularySpec& spec = **read.spec;
  EXPECT_EQ(spec.origin, "made-up.gguf");
  EXPECT_EQ(spec.model_name, "Some Model");
  EXPECT_EQ(spec.model, VocabularyModel::kBytePairs);
  EXPECT_EQ(spec.pre, "olmo");
  EXPECT_THAT(spec.tokens, ElementsAre("a", "b", "ab"));
  EXPECT_THAT(spec.types, ElementsAre(TokenType::kNormal, TokenType::kControl, TokenType::kUserDefined));
  EXPECT_THAT(spec.merges, ElementsAre("a b"));
  EXPECT_EQ(spec.bos, 1);
  EXPECT_EQ(spec.eos, 2);
  EXPECT_EQ(spec.unknown, 0);
  EXPECT_EQ(spec.add_bos, true);
  EXPECT_EQ(spec.add_eos, false);
  EXPECT_EQ(spec.add_space_prefix, std::nullopt);
}

TEST(VocabularySpec, SentencePieceHasScores) {
  GgufWriter writer;
  SetSound(&writer, "llama");
  writer.SetBool("tokenizer.ggml.add_space_prefix", false);
  const Read read(writer);
  ASSERT_TRUE(read.spec->ok()) << read.spec->status().message();
  EXPECT_EQ((*read.spec)->model, VocabularyModel::kSentencePiece);
  EXPECT_THAT((*read.spec)->scores, ElementsAre(0, -1, -2));
  EXPECT_EQ((*read.spec)->add_space_prefix, false);
}

TEST(VocabularySpec, WhatIsWrongIsRefusedByName) {
  const struct {
    const char* model;
    std::function<void(GgufWriter*)> spoil;
    const char* message;
  } cases[] = {
      {"bert", [](GgufWriter*) {}, "tokenizer.ggml.model \"bert\" is not supported; known: gpt2, llama"},
      {"gpt2", [](GgufWriter* w) { w->SetU32("tokenizer.ggml.model", 1); }, "tokenizer.ggml.model"},
      {"gpt2", [](GgufWriter* w) { w->SetU32("tokenizer.ggml.pre", 1); }, "tokenizer.ggml.pre"},
      {"gpt2",
       [](GgufWriter* w) {
         SetI32s(w, "tokenizer.ggml.tokens", {1, 2, 3});
       },
       "key \"tokenizer.ggml.tokens\" is an array of 3 i32, expected an array of strings"},
      {"gpt2", [](GgufWriter* w) { w->SetStrings("tokenizer.ggml.tokens", {}); },
       "tokenizer.ggml.tokens has 0 entries, expected 1 to"},
      {"gpt2",
       [](GgufWriter* w) {
         SetI32s(w, "tokenizer.ggml.token_type", {1, 1});
       },
       "key \"tokenizer.ggml.token_type\" has 2 entries, \"tokenizer.ggml.tokens\" has 3"},
      {"gpt2",
       [](GgufWriter* w) {
         SetI32s(w, "tokenizer.ggml.token_type", {1, 7, 1});
       },
       "tokenizer.ggml.token_type[1] is no token type (0 to 6)"},
      {"gpt2",
       [](GgufWriter* w) {
         SetI32s(w, "tokenizer.ggml.token_type", {1, 1, -1});
       },
       "tokenizer.ggml.token_type[2] is no token type (0 to 6)"},
      {"gpt2", [](GgufWriter* w) { w->SetU32("tokenizer.ggml.token_type", 1); },
       "key \"tokenizer.ggml.token_type\" is a u32, expected an array of numbers"},
      {"gpt2",
       [](GgufWriter* w) {
         const std::string types[] = {"1", "1", "1"};
         w->SetStrings("tokenizer.ggml.token_type", types);
       },
       "key \"tokenizer.ggml.token_type\" is an array of 3 string, expected an array of numbers"},
      {"gpt2", [](GgufWriter* w) { SetI32s(w, "tokenizer.ggml.merges", {1}); },
       "key \"tokenizer.ggml.merges\" is an array of 1 i32, expected an array of strings"},
      {"llama",
       [](GgufWriter* w) {
         SetI32s(w, "tokenizer.ggml.scores", {1, 2, 3});
       },
       "tokenizer.ggml.scores[0] is no finite float"},
      {"llama",
       [](GgufWriter* w) {
         const float scores[] = {0, 0, std::numeric_limits<float>::quiet_NaN()};
         w->SetArray<float>("tokenizer.ggml.scores", scores);
       },
       "tokenizer.ggml.scores[2] is no finite float"},
      {"gpt2", [](GgufWriter* w) { w->SetU32("tokenizer.ggml.bos_token_id", 3); }, "tokenizer.ggml.bos_token_id"},
      {"gpt2", [](GgufWriter* w) { w->SetU32("tokenizer.ggml.eos_token_id", UINT32_MAX); },
       "tokenizer.ggml.eos_token_id"},
      {"gpt2", [](GgufWriter* w) { w->SetI32("tokenizer.ggml.unknown_token_id", -1); },
       "tokenizer.ggml.unknown_token_id"},
      {"gpt2", [](GgufWriter* w) { w->SetU32("tokenizer.ggml.add_bos_token", 1); }, "tokenizer.ggml.add_bos_token"},
  };
  for (const auto& c : cases) {
    GgufWriter writer;
    SetSound(&writer, c.model);
    c.spoil(&writer);
    const Read read(writer);
    ASSERT_FALSE(read.spec->ok()) << c.message;
    EXPECT_THAT(read.spec->status().message(), HasSubstr(c.message));
    EXPECT_THAT(read.spec->status().message(), HasSubstr("made-up.gguf: "));
    EXPECT_LT(read.spec->status().message().size(), 300u);
  }
}

TEST(VocabularySpec, MissingKeysAreNamed) {
  const struct {
    const char* model;
    const char* missing;
  } cases[] = {
      {"gpt2", "tokenizer.ggml.tokens"}, {"gpt2", "tokenizer.ggml.merges"}, {"llama", "tokenizer.ggml.scores"}};
  for (const auto& c : cases) {
    const std::string tokens[] = {"a"};
    GgufWriter writer;
    writer.SetString("tokenizer.ggml.model", c.model);
    if (std::string_view(c.missing) != "tokenizer.ggml.tokens") writer.SetStrings("tokenizer.ggml.tokens", tokens);
    const Read read(writer);
    ASSERT_FALSE(read.spec->ok());
    EXPECT_EQ(read.spec->status().message(), std::string("made-up.gguf: key \"") + c.missing + "\" is missing");
  }
  const Read nothing{GgufWriter()};
  ASSERT_FALSE(nothing.spec->ok());
  EXPECT_THAT(nothing.spec->status().message(), HasSubstr("tokenizer.ggml.model"));
}

}  // namespace
}  // namespace estream
