// SPDX-License-Identifier: Apache-2.0
// What messages show of names that nobody has checked.
#include "format/quote.h"

#include <gtest/gtest.h>

#include <string>

namespace estream {
namespace {

using namespace std::string_literals;  // NOLINT: names with NUL in them

TEST(Quoted, EscapesWhatATerminalWouldObey) {
  const struct {
    std::string text, shown;
  } kCases[] = {
      {"", "\"\""},
      {"olmoe.block_count", "\"olmoe.block_count\""},
      {"say \"hi\" \\", R"("say \"hi\" \\")"},
      {"a\nb\x1b[31m\x7f", R"("a\x0ab\x1b[31m\x7f")"},
      {"nul\0in"s, R"("nul\x00in")"},
      {"grün €😀", "\"grün €😀\""},
      {"\xC3", R"("\xc3")"},                  // cut sequence
      {"\xC0\xAF", R"("\xc0\xaf")"},          // overlong
      {"\xE0\x80\x80", R"("\xe0\x80\x80")"},  // overlong
      {"\xED\xA0\x80", R"("\xed\xa0\x80")"},  // surrogate
      {"\xF0\x80\x80\x80", R"("\xf0\x80\x80\x80")"},
      {"\xF4\x90\x80\x80", R"("\xf4\x90\x80\x80")"},  // past U+10FFFF
      {"\xC2\x9B", R"("\xc2\x9b")"},                  // U+009B starts a terminal sequence
      {"\xC2\xA0", "\"\xC2\xA0\""},
  };
  for (const auto& c : kCases) EXPECT_EQ(Quoted(c.text), c.shown);
}

TEST(Quoted, IsBounded) {
  EXPECT_EQ(Quoted(std::string(64, 'a')), '"' + std::string(64, 'a') + '"');
  EXPECT_EQ(Quoted(std::string(65, 'a')), '"' + std::string(64, 'a') + "...\"");
  EXPECT_LE(Quoted(std::string(1 << 20, '\x01')).size(), 70u);
}

TEST(ShownPath, KeepsTheEnd) {
  EXPECT_EQ(ShownPath("dir/model.gguf"), "dir/model.gguf");
  EXPECT_EQ(ShownPath(""), "");
  EXPECT_EQ(ShownPath("a\"b"), "a\"b");
  const std::string shown = ShownPath(std::string(5000, 'd') + "/model.gguf");
  EXPECT_EQ(shown.substr(0, 4), "...d");
  EXPECT_EQ(shown.substr(shown.size() - 11), "/model.gguf");
  EXPECT_LE(shown.size(), 83u);
  EXPECT_LE(ShownPath(std::string(5000, '\n')).size(), 120u);
}

TEST(ShownPath, IsNotCutInsideACharacter) {
  std::string path;
  for (int i = 0; i < 100; ++i) path += "€";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ShownPath(path + std::string(i, 'x')).find("\\x"), std::string::npos);
}

}  // namespace
}  // namespace estream
