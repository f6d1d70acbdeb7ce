// SPDX-License-Identifier: Apache-2.0
// Cuts and joins keep origins; blanks are Python's.
#include "text/marked_text.h"

#include <gtest/gtest.h>

namespace estream {
namespace {

// Text of messages in upper case, of templates in lower case.
std::string Origins(const MarkedText& text) {
  std::string origins;
  for (size_t i = 0; i < text.size(); ++i) origins += text.origin(i) == Origin::kMessage ? 'M' : 't';
  return origins;
}

MarkedText Mixed() {
  MarkedText text("  ab", Origin::kTemplate);
  text.Append("cd,e", Origin::kMessage);
  text.Append(MarkedText(" ", Origin::kTemplate));
  return text;
}

TEST(MarkedText, CutsAndJoinsKeepTheOriginOfEveryByte) {
  EXPECT_EQ(Mixed().text(), "  abcd,e ");
  EXPECT_EQ(Origins(Mixed()), "ttttMMMMt");
  EXPECT_EQ(Mixed().Cut(3, 5).text(), "bc");
  EXPECT_EQ(Origins(Mixed().Cut(3, 5)), "tM");
  EXPECT_EQ(Origins(Mixed().Strip(true, true, std::nullopt)), "ttMMMM");
  const std::vector<MarkedText> parts = Mixed().Split("c");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(Origins(parts[0]), "tttt");
  EXPECT_EQ(Origins(parts[1]), "MMMt");
}

TEST(MarkedText, StripsLikePython) {
  struct Case {
    std::string text;
    bool left, right;
    std::optional<std::string_view> characters;
    std::string want;
  };
  const Case cases[] = {
      {"", true, true, std::nullopt, ""},
      {" \t\n", true, true, std::nullopt, ""},
      {" \t\n", true, false, std::nullopt, ""},
      {" a b ", true, true, std::nullopt, "a b"},
      {" a ", true, false, std::nullopt, "a "},
      {" a ", false, true, std::nullopt, " a"},
      {"\xC2\xA0\xE3\x80\x80x\x1C\x1F", true, true, std::nullopt, "x"},  // no-break and ideographic space, separators
      {"\xE2\x80\x8Bx", true, true, std::nullopt, "\xE2\x80\x8Bx"},      // a zero width space is none
      {"\n\nx\n", true, false, "\n", "x\n"},
      {"xyx", true, true, "x", "y"},
      {"\xC3\xA9"
       "e\xC3\xA9",
       true, true, "\xC3\xA9", "e"},
      {" x ", true, true, "", " x "},
      {"\xFF x \xFF", true, true, std::nullopt, "\xFF x \xFF"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(MarkedText(c.text, Origin::kMessage).Strip(c.left, c.right, c.characters).text(), c.want) << c.text;
  }
}

TEST(MarkedText, SplitsAtEveryOccurrence) {
  const auto split = [](std::string_view text, std::string_view separator) {
    std::vector<std::string> parts;
    for (const MarkedText& part : MarkedText(text, Origin::kMessage).Split(separator)) parts.push_back(part.text());
    return parts;
  };
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split("", "--"), Parts({""}));
  EXPECT_EQ(split("a", "--"), Parts({"a"}));
  EXPECT_EQ(split("--", "--"), Parts({"", ""}));
  EXPECT_EQ(split("a--b---c", "--"), Parts({"a", "b", "-c"}));
}

TEST(MarkedText, CountsCharactersNotBytes) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("a\xC3\xA9\xF0\x9F\x99\x82"), 3u);
  EXPECT_EQ(CountCharacters("\xF0\x9F"), 2u);
}

}  // namespace
}  // namespace estream
