// SPDX-License-Identifier: Apache-2.0
// The printable alphabet in which byte-level vocabularies write bytes (GPT-2): byte 0x20 is U+0120, 'A' is 'A'.
//
// Bytes that are printable in Latin-1 (0x21-0x7E, 0xA1-0xAC, 0xAE-0xFF) stand for themselves; the other 68, in
// ascending order, are U+0100 to U+0143.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace estream {

// The code point that stands for a byte, and back; nothing for a code point outside the alphabet.
uint32_t LetterOfByte(uint8_t byte);
std::optional<uint8_t> ByteOfLetter(uint32_t code_point);

// Appends `bytes` written in the alphabet.
void AppendAsLetters(std::string_view bytes, std::string* out);

// Appends the bytes that `letters` stands for; characters outside the alphabet are kept as they are.
void AppendAsBytes(std::string_view letters, std::string* out);

}  // namespace estream
