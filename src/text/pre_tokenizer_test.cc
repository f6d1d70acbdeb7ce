// SPDX-License-Identifier: Apache-2.0
// Tests of the pre-tokenizers: the edges of each pattern, and what holds for any text.
#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "text/utf8.h"

namespace estream {
namespace {

using Words = std::vector<std::string>;

Words Split(std::string_view name, std::string_view text) {
  std::vector<uint32_t> ends;
  SplitWords(FindPreTokenizer(name)->pattern, text, &ends);
  Words words;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

struct Case {
  const char* text;
  Words expected;
};

TEST(PreTokenizer, KnowsItsNamesAndNoOthers) {
  EXPECT_EQ(PreTokenizerNames(), "gpt-2, olmo, qwen2, deepseek-llm, llama-bpe, llama3, lfm2");
  for (const char* name : {"", "mystery", "gpt", "gpt-2 ", "default"}) EXPECT_EQ(FindPreTokenizer(name), nullptr);
  EXPECT_EQ(FindPreTokenizer("olmo")->pattern, WordPattern::kGpt2);
  EXPECT_TRUE(FindPreTokenizer("lfm2")->whole_words_first);
  EXPECT_TRUE(FindPreTokenizer("lfm2")->adds_bos);
  EXPECT_FALSE(FindPreTokenizer("qwen2")->adds_bos);
}

TEST(PreTokenizer, CutsLikeGpt2) {
  const Case cases[] = {
      {"", {}},
      {"Hello, World!", {"Hello", ",", " World", "!"}},
      {" a", {" a"}},
      {"a ", {"a", " "}},
      {"a  b", {"a", " ", " b"}},
      {"a   ", {"a", "   "}},
      {"a \nb", {"a", " ", "\n", "b"}},
      {"\n\nx", {"\n", "\n", "x"}},
      {"x12y", {"x", "12", "y"}},
      {" 123 4", {" 123", " 4"}},
      {"I'm we'll 'S 's't", {"I", "'m", " we", "'ll", " '", "S", " '", "s", "'t"}},
      {"'", {"'"}},
      {"'l", {"'", "l"}},
      {"'re", {"'re"}},
      {"cafe\xCC\x81", {"cafe", "\xCC\x81"}},
      {"\xC2\xA0x", {"\xC2\xA0", "x"}},
      {" \xE2\x82\xAC\xE2\x84\xA2", {" \xE2\x82\xAC\xE2\x84\xA2"}},
      {"x\xC2\xB2", {"x", "\xC2\xB2"}},
      {"a\xFF\xE2\x82z", {"a", "\xFF\xE2\x82", "z"}},
  };
  for (const Case& c : cases) EXPECT_EQ(Split("gpt-2", c.text), c.expected) << c.text;
}

TEST(PreTokenizer, CutsLikeLlama3) {
  const Case cases[] = {
      {"", {}},
      {"Hello, World!", {"Hello", ",", " World", "!"}},
      {"12345678", {"123", "456", "78"}},
      {" 1234", {" ", "123", "4"}},
      {"\tif (x)\r\n\treturn;\n\n", {"\tif", " (", "x", ")\r\n", "\treturn", ";\n\n"}},
      {"a \n \n b", {"a", " \n \n", " b"}},
      {"a   b", {"a", "  ", " b"}},
      {"a  ", {"a", "  "}},
      {"a\n", {"a", "\n"}},
      {"\nb", {"\n", "b"}},
      {"don'T WE'LL 'x", {"don", "'T", " WE", "'LL", " '", "x"}},
      {"''s", {"''", "s"}},
      {"cafe\xCC\x81s", {"cafe", "\xCC\x81s"}},
      {" !\xFFx", {" !\xFF", "x"}},
      {"\xC2\xA0y", {"\xC2\xA0y"}},
  };
  for (const Case& c : cases) EXPECT_EQ(Split("llama-bpe", c.text), c.expected) << c.text;
  EXPECT_EQ(Split("qwen2", "a1234 b"), (Words{"a", "1", "2", "3", "4", " b"}));
}

TEST(PreTokenizer, CutsLikeDeepSeek) {
  const Case cases[] = {
      {"", {}},
      {"Hello, World!", {"Hello", ",", " World", "!"}},
      {"a\r\n\nb", {"a", "\r", "\n", "\n", "b"}},
      {"12345 6", {"12345", " ", "6"}},
      {"x  y  ", {"x", " ", " y", "  "}},
      {"caf\xC3\xA9", {"caf", "\xC3\xA9"}},
      {"\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C"
       "2024",
       {"\xE4\xBD\xA0\xE5\xA5\xBD", "\xEF\xBC\x8C", "2024"}},
      {"\xE3\x80\x80\xE3\x81\x93", {"\xE3\x80\x80", "\xE3\x81\x93"}},
      {"\xE3\x80\x82\xE3\x80\x80", {"\xE3\x80\x82", "\xE3\x80\x80"}},
      {"\xED\x95\x9C \xED\x95\x9C", {"\xED\x95\x9C", " ", "\xED\x95\x9C"}},
  };
  for (const Case& c : cases) EXPECT_EQ(Split("deepseek-llm", c.text), c.expected) << c.text;
}

// Words cover the text, none is empty, and none ends inside a character.
void CheckWords(WordPattern pattern, const std::string& text) {
  std::vector<uint32_t> ends;
  SplitWords(pattern, text, &ends);
  size_t at = 0;
  for (const uint32_t end : ends) {
    ASSERT_LT(at, end);
    while (at < end) at += DecodeUtf8(text, at).bytes;
    ASSERT_EQ(at, end) << ToPrintable(text);
  }
  ASSERT_EQ(at, text.size()) << ToPrintable(text);
}

constexpr WordPattern kPatterns[] = {WordPattern::kGpt2, WordPattern::kLlama3, WordPattern::kQwen2,
                                     WordPattern::kDeepSeekLlm};

TEST(PreTokenizer, WordsCoverAnyText) {
  constexpr uint32_t kSeed = 4711;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const std::string_view pieces[] = {
      " ",        " ",        "\n",   "\r",       "\t",           "a", "S",  "'",        "7",    "12",          "!",
      "\xC3\xA9", "\xCC\x81", "\xFF", "\xE2\x82", "\xE4\xBD\xA0", "~", "ll", "\xC2\xA0", "\x80", "\xE3\x80\x80"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint32_t n = random() % 40; n > 0; --n) text += pieces[random() % std::size(pieces)];
    for (const WordPattern pattern : kPatterns) CheckWords(pattern, text);
  }
}

TEST(PreTokenizer, LongRunsOfOneKindAreLinear) {
  const std::string_view runs[] = {"a", " ", "\n",  "\t",           "7",    "\xCC\x81",
                                   "!", "'", " \n", "\xE3\x80\x80", "\xFF", "\r"};
  for (const std::string_view run : runs) {
    std::string text;
    while (text.size() < 1 << 18) text += run;
    text += "x";
    for (const WordPattern pattern : kPatterns) CheckWords(pattern, text);
  }
}

}  // namespace
}  // namespace estream
