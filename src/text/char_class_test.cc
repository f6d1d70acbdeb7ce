// SPDX-License-Identifier: Apache-2.0
// Tests of character classes: their edges, and the table's shape.
#include "text/char_class.h"

#include <gtest/gtest.h>

#include "text/unicode_tables.h"

namespace estream {
namespace {

TEST(CharClass, KnowsTheEdgesOfEveryKind) {
  const struct {
    uint32_t code_point;
    CharClass expected;
  } cases[] = {
      {0, CharClass::kOther},          {'\t', CharClass::kSpace},     {'\r', CharClass::kSpace},
      {0x0E, CharClass::kOther},       {0x1C, CharClass::kOther},     {' ', CharClass::kSpace},
      {'!', CharClass::kOther},        {'/', CharClass::kOther},      {'0', CharClass::kNumber},
      {'9', CharClass::kNumber},       {':', CharClass::kOther},      {'A', CharClass::kLetter},
      {'z', CharClass::kLetter},       {'{', CharClass::kOther},      {0x7F, CharClass::kOther},
      {0x85, CharClass::kSpace},       {0xA0, CharClass::kSpace},     {0xAA, CharClass::kLetter},
      {0xB2, CharClass::kNumber},      {0xB5, CharClass::kLetter},    {0xD7, CharClass::kOther},
      {0x0301, CharClass::kOther},     {0x0378, CharClass::kOther},   {0x0661, CharClass::kNumber},
      {0x093F, CharClass::kOther},     {0x1680, CharClass::kSpace},   {0x180E, CharClass::kOther},
      {0x2000, CharClass::kSpace},     {0x200A, CharClass::kSpace},   {0x200B, CharClass::kOther},
      {0x2028, CharClass::kSpace},     {0x2167, CharClass::kNumber},  {0x3000, CharClass::kSpace},
      {0x3042, CharClass::kLetter},    {0x4E00, CharClass::kLetter},  {0x9FFF, CharClass::kLetter},
      {0xAC00, CharClass::kLetter},    {0xD800, CharClass::kOther},   {0xE000, CharClass::kOther},
      {0xFF11, CharClass::kNumber},    {0xFFFD, CharClass::kOther},   {0x1F600, CharClass::kOther},
      {0x20000, CharClass::kLetter},   {0x10FFFF, CharClass::kOther}, {0x110000, CharClass::kOther},
      {0xFFFFFFFF, CharClass::kOther},
  };
  for (const auto& c : cases) EXPECT_EQ(ClassOf(c.code_point), c.expected) << std::hex << c.code_point;
}

TEST(CharClass, TableBeginsAtZeroAscendsAndChangesAtEveryEntry) {
  ASSERT_GT(kClassStartCount, 0u);
  EXPECT_EQ(kClassStarts[0] >> 2, 0u);
  for (size_t i = 1; i < kClassStartCount; ++i) {
    ASSERT_LT(kClassStarts[i - 1] >> 2, kClassStarts[i] >> 2) << i;
    ASSERT_NE(kClassStarts[i - 1] & 3, kClassStarts[i] & 3) << i;
  }
}

TEST(CharClass, AsciiShortcutEqualsTheTable) {
  size_t entry = 0;
  for (uint32_t c = 0; c < 128; ++c) {
    if (entry + 1 < kClassStartCount && kClassStarts[entry + 1] >> 2 == c) ++entry;
    EXPECT_EQ(static_cast<uint32_t>(ClassOf(c)), kClassStarts[entry] & 3) << c;
  }
}

}  // namespace
}  // namespace estream
