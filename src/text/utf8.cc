// SPDX-License-Identifier: Apache-2.0
// Decoding by the table of well-formed sequences (Unicode standard, table 3-7), encoding, escaping.
#include "text/utf8.h"

#include <fmt/format.h>

#include <iterator>

namespace estream {
namespace {

constexpr Utf8Char kBroken = {kReplacementCharacter, 1, false};

bool IsControl(uint32_t code_point) { return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0); }

std::string Escape(std::string_view text, bool controls) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const bool harmful = controls && IsControl(c.code_point) && c.code_point != '\n' && c.code_point != '\t';
    if (c.valid && !harmful) {
      out.append(text.substr(at, c.bytes));
    } else {
      for (uint32_t i = 0; i < c.bytes; ++i) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(text[at + i]));
      }
    }
    at += c.bytes;
  }
  return out;
}

}  // namespace

Utf8Char DecodeUtf8(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xC2 || lead > 0xF4) return kBroken;
  const uint32_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() - at < bytes) return kBroken;
  // Only the second byte's range depends on the lead: no overlong forms, no surrogates, nothing past U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  const auto second = static_cast<uint8_t>(text[at + 1]);
  if (second < low || second > high) return kBroken;
  uint32_t code_point = (lead & (0x7Fu >> bytes)) << 6 | (second & 0x3Fu);
  for (uint32_t i = 2; i < bytes; ++i) {
    const auto next = static_cast<uint8_t>(text[at + i]);
    if ((next & 0xC0) != 0x80) return kBroken;
    code_point = code_point << 6 | (next & 0x3Fu);
  }
  return {code_point, bytes, true};
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto tail = [&](uint32_t shift) { out->push_back(static_cast<char>(0x80 | (code_point >> shift & 0x3F))); };
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xC0 | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    out->push_back(static_cast<char>(0xF0 | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string ToValidUtf8(std::string_view text) { return Escape(text, false); }

std::string ToPrintable(std::string_view text) { return Escape(text, true); }

}  // namespace estream
