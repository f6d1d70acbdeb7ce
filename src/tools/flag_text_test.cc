// SPDX-License-Identifier: Apache-2.0
// Escapes, lists and lines, with the edges that shells and editors produce.
#include "tools/flag_text.h"

#include <gmock/gmock.h>

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FlagText, UnescapeReadsTheFiveEscapesAndKeepsTheRest) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},     {"a\\nb", "a\nb"}, {"\\t\\r\\\\", "\t\r\\"},
                                                       {"\\,", ","}, {"\\\\n", "\\n"},  {"\\d\\", "\\d\\"},
                                                       {"\\", "\\"}};
  for (const auto& [text, meaning] : cases) EXPECT_EQ(Unescape(text), meaning) << text;
}

TEST(FlagText, ListsSplitAtCommasAndTrim) {
  EXPECT_THAT(SplitList("yes,no"), ElementsAre("yes", "no"));
  EXPECT_THAT(SplitList(" oil change , say it "), ElementsAre("oil change", "say it"));
  EXPECT_THAT(SplitList("a\\,b,c\\n"), ElementsAre("a,b", "c\n"));
  EXPECT_THAT(SplitList("a\\,"), ElementsAre("a,"));
  EXPECT_THAT(SplitList("a\\"), ElementsAre("a\\"));
  EXPECT_THAT(SplitList("a,,b,"), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(SplitList(""), ElementsAre(""));
}

TEST(FlagText, TokenIdsAreWholeNumbers) {
  EXPECT_THAT(*ParseTokenIds("5, 17,2147483647"), ElementsAre(5, 17, 2147483647));
  for (const char* bad : {"", "5,", "-1", "2147483648", "1.5", "0x10", "5 6", "five"}) {
    EXPECT_FALSE(ParseTokenIds(bad).has_value()) << bad;
  }
}

TEST(FlagText, LinesKeepEmptyOnesAndLoseTheirEnds) {
  EXPECT_THAT(SplitLines(""), IsEmpty());
  EXPECT_THAT(SplitLines("a"), ElementsAre("a"));
  EXPECT_THAT(SplitLines("a\n"), ElementsAre("a"));
  EXPECT_THAT(SplitLines("a\r\n\r\nb\n\n"), ElementsAre("a", "", "b", ""));
}

TEST(FlagText, OneFinalNewlineGoes) {
  EXPECT_EQ(WithoutFinalNewline("a\n\n"), "a\n");
  EXPECT_EQ(WithoutFinalNewline("a\r\n"), "a");
  EXPECT_EQ(WithoutFinalNewline("a\r"), "a\r");
  EXPECT_EQ(WithoutFinalNewline(""), "");
}

TEST(FlagText, SizesHaveUnits) {
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("1.5G"), 3ull << 29);
  EXPECT_EQ(ParseBytes("900m"), 900ull << 20);
  EXPECT_EQ(ParseBytes("2GiB"), 2ull << 30);
  EXPECT_EQ(ParseBytes("2GB"), 2'000'000'000ull);
  EXPECT_EQ(ParseBytes("7B"), 7u);
  for (const char* wrong : {"", "G", "0", "-1G", "1X", "1Gi", "1 G", "1e3", "nan", "inf", "2000000T", "0.1"}) {
    EXPECT_FALSE(ParseBytes(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace estream
