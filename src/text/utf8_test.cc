// SPDX-License-Identifier: Apache-2.0
// Tests of UTF-8 decoding, encoding and escaping: every code point, every kind of broken sequence.
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace estream {
namespace {

TEST(Utf8, EveryCodePointSurvivesEncodingAndDecoding) {
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    AppendUtf8(code_point, &text);
    const Utf8Char c = DecodeUtf8(text, 0);
    ASSERT_TRUE(c.valid) << code_point;
    ASSERT_EQ(c.code_point, code_point);
    ASSERT_EQ(c.bytes, text.size());
    // Cut short, each of its bytes stands alone.
    text.pop_back();
    if (!text.empty()) {
      ASSERT_FALSE(DecodeUtf8(text, 0).valid) << code_point;
    }
  }
}

TEST(Utf8, BytesOfNoWellFormedSequenceStandAlone) {
  const std::string_view broken[] = {
      "\x80",
      "\xBF",
      "\xC0\xAF",
      "\xC1\xBF",
      "\xE0\x80\xAF",
      "\xE0\x9F\xBF",
      "\xED\xA0\x80",
      "\xED\xBF\xBF",
      "\xF0\x80\x80\x80",
      "\xF0\x8F\xBF\xBF",
      "\xF4\x90\x80\x80",
      "\xF5\x80\x80\x80",
      "\xFE",
      "\xFF",
      "\xC3(",
      "\xE2\x82(",
      "\xF0\x9F\x98(",
      "\xE2(\xA1",
      "\xF0(\x9F\x98",
  };
  for (const std::string_view text : broken) {
    const Utf8Char c = DecodeUtf8(text, 0);
    EXPECT_FALSE(c.valid) << ToValidUtf8(text);
    EXPECT_EQ(c.bytes, 1u);
    EXPECT_EQ(c.code_point, kReplacementCharacter);
  }
}

TEST(Utf8, EscapesOnlyWhatIsBroken) {
  EXPECT_EQ(ToValidUtf8(""), "");
  EXPECT_EQ(ToValidUtf8("caf\xC3\xA9 \xF0\x9F\x98\x80\x1B\n"), "caf\xC3\xA9 \xF0\x9F\x98\x80\x1B\n");
  EXPECT_EQ(ToValidUtf8("a\xFF\xE2\x82z"), "a\\xff\\xe2\\x82z");
  EXPECT_EQ(ToValidUtf8("\xEF\xBF\xBD"), "\xEF\xBF\xBD");  // a genuine U+FFFD stays
}

TEST(Utf8, ToPrintableAlsoEscapesControlCharacters) {
  EXPECT_EQ(ToPrintable("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(ToPrintable(std::string_view("\x1B[31m\0\x7F", 7)), "\\x1b[31m\\x00\\x7f");
  EXPECT_EQ(ToPrintable("\xC2\x9B"
                        "31m"),
            "\\xc2\\x9b31m");
}

}  // namespace
}  // namespace estream
