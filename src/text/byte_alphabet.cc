// SPDX-License-Identifier: Apache-2.0
// The two directions of the byte alphabet as tables built at compile time.
#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace estream {
namespace {

constexpr uint32_t kLetterEnd = 0x144;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD && byte <= 0xFF);
}

constexpr std::array<uint16_t, 256> kLetters = [] {
  std::array<uint16_t, 256> letters{};
  uint16_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    letters[byte] = StandsForItself(byte) ? static_cast<uint16_t>(byte) : next++;
  }
  return letters;
}();

// Byte + 1 by code point; 0 where there is none.
constexpr std::array<uint16_t, kLetterEnd> kBytes = [] {
  std::array<uint16_t, kLetterEnd> bytes{};
  for (uint32_t byte = 0; byte < 256; ++byte) bytes[kLetters[byte]] = static_cast<uint16_t>(byte + 1);
  return bytes;
}();

}  // namespace

uint32_t LetterOfByte(uint8_t byte) { return kLetters[byte]; }

std::optional<uint8_t> ByteOfLetter(uint32_t code_point) {
  if (code_point >= kLetterEnd || kBytes[code_point] == 0) return std::nullopt;
  return static_cast<uint8_t>(kBytes[code_point] - 1);
}

void AppendAsLetters(std::string_view bytes, std::string* out) {
  for (const char byte : bytes) AppendUtf8(LetterOfByte(static_cast<uint8_t>(byte)), out);
}

void AppendAsBytes(std::string_view letters, std::string* out) {
  for (size_t at = 0; at < letters.size();) {
    const Utf8Char c = DecodeUtf8(letters, at);
    const auto byte = c.valid ? ByteOfLetter(c.code_point) : std::nullopt;
    if (byte) {
      out->push_back(static_cast<char>(*byte));
    } else {
      out->append(letters.substr(at, c.bytes));
    }
    at += c.bytes;
  }
}

}  // namespace estream
