// SPDX-License-Identifier: Apache-2.0
// Looking up the class of a code point in the table of changes.
#include "text/char_class.h"

#include <algorithm>
#include <array>

#include "text/unicode_tables.h"

namespace estream {
namespace {

constexpr std::array<CharClass, 128> kAscii = [] {
  std::array<CharClass, 128> classes{};
  for (int c = 0; c < 128; ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) classes[c] = CharClass::kLetter;
    if (c >= '0' && c <= '9') classes[c] = CharClass::kNumber;
    if (c == ' ' || (c >= '\t' && c <= '\r')) classes[c] = CharClass::kSpace;
  }
  return classes;
}();

}  // namespace

CharClass ClassOf(uint32_t code_point) {
  if (code_point < kAscii.size()) return kAscii[code_point];
  if (code_point > 0x10FFFF) return CharClass::kOther;
  const uint32_t* end = kClassStarts + kClassStartCount;
  const uint32_t* after = std::upper_bound(kClassStarts, end, code_point << 2 | 3);
  return static_cast<CharClass>(after[-1] & 3);
}

}  // namespace estream
