// SPDX-License-Identifier: Apache-2.0
// What reaches a terminal, and how wide it is.
#include "tools/terminal.h"

#include <gtest/gtest.h>

namespace estream {
namespace {

TEST(OneLine, EscapesWhatATerminalWouldObey) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {" plain ~", " plain ~"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"\x1b[31mred", "\\x1b[31mred"},
      {std::string("nul\0!", 5), "nul\\x00!"},
      {"\x7f", "\\x7f"},
      {"caf\u00e9 \u4f60\u597d \U0001F600", "caf\u00e9 \u4f60\u597d \U0001F600"},
      {"\xe4\xbd", "\\xe4\\xbd"},                   // half a character
      {"\xc0\xaf", "\\xc0\\xaf"},                   // overlong
      {"\u009b31m", "\\xc2\\x9b31m"},               // C1 control sequence introducer
      {"a\u202eb", "a\\xe2\\x80\\xaeb"},            // right-to-left override
      {"line\u2028end", "line\\xe2\\x80\\xa8end"},  // line separator
  };
  for (const auto& [text, shown] : cases) EXPECT_EQ(OneLine(text), shown);
}

TEST(Fit, CutsAtCharactersAndPads) {
  struct Case {
    const char* text;
    size_t columns;
    const char* fitted;
  };
  const Case cases[] = {{"", 0, ""},
                        {"", 2, "  "},
                        {"abc", 3, "abc"},
                        {"abc", 5, "abc  "},
                        {"abcdef", 5, "ab..."},
                        {"abcdef", 3, "..."},
                        {"abcdef", 2, ".."},
                        {"abcdef", 0, ""},
                        {"\u00e9\u00e9\u00e9\u00e9\u00e9", 4, "\u00e9..."},
                        {"\u00e9", 2, "\u00e9 "}};
  for (const Case& c : cases) {
    EXPECT_EQ(Fit(c.text, c.columns), c.fitted) << c.text << " " << c.columns;
    EXPECT_EQ(Columns(Fit(c.text, c.columns)), c.columns);
  }
}

TEST(Styles, ArePlainTextWhenOff) {
  EXPECT_EQ(Bold("x", false), "x");
  EXPECT_EQ(Bold("x", true), "\x1b[1mx\x1b[0m");
  EXPECT_EQ(Dim("x", true), "\x1b[2mx\x1b[0m");
}

}  // namespace
}  // namespace estream
