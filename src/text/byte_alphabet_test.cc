// SPDX-License-Identifier: Apache-2.0
// Tests of the byte alphabet: a bijection with the published letters.
#include "text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace estream {
namespace {

TEST(ByteAlphabet, IsABijection) {
  std::set<uint32_t> letters;
  for (int byte = 0; byte < 256; ++byte) {
    const uint32_t letter = LetterOfByte(static_cast<uint8_t>(byte));
    EXPECT_TRUE(letters.insert(letter).second);
    EXPECT_EQ(ByteOfLetter(letter), static_cast<uint8_t>(byte));
  }
}

TEST(ByteAlphabet, UsesThePublishedLetters) {
  EXPECT_EQ(LetterOfByte(' '), 0x120u);
  EXPECT_EQ(LetterOfByte('\n'), 0x10Au);
  EXPECT_EQ(LetterOfByte(0x00), 0x100u);
  EXPECT_EQ(LetterOfByte(0x7F), 0x121u);
  EXPECT_EQ(LetterOfByte(0xAD), 0x143u);
  EXPECT_EQ(LetterOfByte('~'), static_cast<uint32_t>('~'));
  EXPECT_EQ(LetterOfByte(0xFF), 0xFFu);
  EXPECT_EQ(ByteOfLetter(' '), std::nullopt);
  EXPECT_EQ(ByteOfLetter(0xAD), std::nullopt);
  EXPECT_EQ(ByteOfLetter(0x144), std::nullopt);
}

TEST(ByteAlphabet, TextGoesThereAndBack) {
  std::string letters, bytes;
  AppendAsLetters(" the\xFF", &letters);
  EXPECT_EQ(letters, "\xC4\xA0the\xC3\xBF");
  AppendAsBytes(letters, &bytes);
  EXPECT_EQ(bytes, " the\xFF");
}

TEST(ByteAlphabet, CharactersOutsideStayAsTheyAre) {
  std::string bytes;
  AppendAsBytes("\xE4\xBD\xA0 \xFF\xC4\xA0", &bytes);
  EXPECT_EQ(bytes, "\xE4\xBD\xA0 \xFF ");
}

}  // namespace
}  // namespace estream
