// SPDX-License-Identifier: Apache-2.0
// Made vocabularies load, have the models' sizes and special ids, and encode everything.
#include "tools/synth/vocabulary_maker.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "format/gguf.h"
#include "tests/memory_file.h"
#include "tests/random.h"
#include "text/tokenizer.h"

namespace estream {
namespace {

Gguf AsFile(const MadeVocabulary& vocabulary) {
  GgufWriter writer;
  SetVocabulary(vocabulary, &writer);
  const std::vector<std::byte> header = writer.Header();
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
  auto file = Gguf::Open(std::make_shared<MemoryFile>(std::move(bytes)));
  EXPECT_TRUE(file.ok()) << file.status().message();
  return std::move(file).value();
}

std::vector<ModelShape> ShapesOfBothSizes() {
  std::vector<ModelShape> shapes = AllModelShapes();
  for (const ModelShape& shape : AllModelShapes()) {
    shapes.push_back(Tiny(shape));
    shapes.back().id += " tiny";
  }
  return shapes;
}

TEST(VocabularyMaker, TokensAreAllDifferentAndAsManyAsTheModelHas) {
  for (const ModelShape& shape : ShapesOfBothSizes()) {
    const MadeVocabulary v = MakeVocabulary(shape);
    EXPECT_EQ(v.tokens.size(), shape.vocabulary) << shape.id;
    EXPECT_EQ(v.types.size(), shape.vocabulary) << shape.id;
    EXPECT_EQ(std::set<std::string>(v.tokens.begin(), v.tokens.end()).size(), shape.vocabulary) << shape.id;
    EXPECT_EQ(std::set<std::string>(v.tokens.begin(), v.tokens.end()).count(""), 0u) << shape.id;
  }
}

TEST(VocabularyMaker, SpecialTokensHaveTheModelsIds) {
  const auto made = [](const char* id) { return MakeVocabulary(*FindModelShape(id)); };
  EXPECT_EQ(made("olmoe-1b-7b").eos, 50279u);
  EXPECT_EQ(made("qwen3-30b-a3b").eos, 151645u);
  EXPECT_EQ(made("deepseek-v2-lite").bos, 100000u);
  EXPECT_EQ(made("lfm2.5-8b-a1b").eos, 7u);
  EXPECT_EQ(made("mixtral-8x7b").bos, 1u);
}

TEST(VocabularyMaker, EveryTextComesBack) {
  Random random(20);
  SCOPED_TRACE(random.seed());
  std::vector<std::string> texts = {"The capital of France is Paris.", "naïve  text\n\twith ünïcode 日本語 🙂",
                                    "a", "  ", "<|im_end|> is no token here"};
  std::string bytes(300, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Bits());
  texts.push_back(bytes);
  for (const ModelShape& shape : ShapesOfBothSizes()) {
    SCOPED_TRACE(shape.id);
    const Gguf file = AsFile(MakeVocabulary(shape));
    const auto tokenizer = Tokenizer::FromGguf(file, {});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_EQ(tokenizer->vocabulary_size(), shape.vocabulary);
    for (const std::string& text : texts) {
      const auto ids = tokenizer->Encode(text, {.add_special = false});
      ASSERT_TRUE(ids.ok()) << ids.status().message();
      EXPECT_EQ(tokenizer->Decode(*ids), text);
    }
  }
}

TEST(VocabularyMaker, EnglishTakesHalfAsManyTokensAsLetters) {
  const std::string text = "It was the best of times, it was the worst of times, it was the age of wisdom";
  for (const ModelShape& shape : AllModelShapes()) {
    const Gguf file = AsFile(MakeVocabulary(shape));
    const auto ids = Tokenizer::FromGguf(file, {})->Encode(text, {.add_special = false});
    ASSERT_TRUE(ids.ok()) << shape.id;
    EXPECT_LE(ids->size(), text.size() / 2) << shape.id;
  }
}

}  // namespace
}  // namespace estream
