// SPDX-License-Identifier: Apache-2.0
// UTF-8 that may be broken: decoding that never fails, encoding, and escaping what a terminal or JSON must not get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace estream {

inline constexpr uint32_t kReplacementCharacter = 0xFFFD;

struct Utf8Char {
  uint32_t code_point = 0;  // U+FFFD for a byte that belongs to no well-formed sequence
  uint32_t bytes = 0;       // 1..4; 1 for such a byte
  bool valid = false;
};

// The character at `at`. Overlong forms, surrogates and what lies past U+10FFFF are not well-formed: each of their
// bytes is a character of its own. Pre: at < text.size().
Utf8Char DecodeUtf8(std::string_view text, size_t at);

// Appends a code point below 0x110000.
void AppendUtf8(uint32_t code_point, std::string* out);

// `text` with every byte that belongs to no well-formed sequence written as \xNN: fit for a JSON string.
std::string ToValidUtf8(std::string_view text);

// The same, with control characters but newline and tab written as \xNN too: fit for a terminal.
std::string ToPrintable(std::string_view text);

}  // namespace estream
