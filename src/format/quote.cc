// SPDX-License-Identifier: Apache-2.0
// Escaping for messages: anything that is neither printable ASCII nor well-formed UTF-8 becomes \xNN.
#include "format/quote.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace estream {
namespace {

constexpr size_t kMaxQuoted = 64;
constexpr size_t kMaxPath = 80;
constexpr size_t kMaxShownPath = 110;  // escapes make it longer; a whole message stays below 300 bytes

// The length of the well-formed UTF-8 sequence of two bytes or more at `at`, or 0. U+0080-U+009F are control characters
// and count as not well-formed here.
size_t Utf8Length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(at), second = byte(at + 1);
  if (lead >= 0xC2 && lead <= 0xDF) return follows(at + 1) && (lead != 0xC2 || second >= 0xA0) ? 2 : 0;
  if ((lead & 0xF0) == 0xE0) {
    const bool overlong = lead == 0xE0 && second < 0xA0;
    const bool surrogate = lead == 0xED && second >= 0xA0;
    return follows(at + 1) && follows(at + 2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && second < 0x90;
    const bool beyond = lead == 0xF4 && second >= 0x90;
    return follows(at + 1) && follows(at + 2) && follows(at + 3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

// Up to `max` output bytes of `text`, escaped; "..." when there is more.
std::string Escaped(std::string_view text, size_t max, bool escape_quotes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    size_t length = 1;
    std::string piece;
    if (escape_quotes && (c == '"' || c == '\\')) {
      piece = {'\\', c};
    } else if (c >= ' ' && c <= '~') {
      piece = c;
    } else if (const size_t sequence = Utf8Length(text, i); sequence != 0) {
      length = sequence;
      piece = text.substr(i, length);
    } else {
      piece = fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    }
    if (out.size() + piece.size() > max) return out + "...";
    out += piece;
    i += length;
  }
  return out;
}

}  // namespace

std::string Quoted(std::string_view text) { return '"' + Escaped(text, kMaxQuoted, true) + '"'; }

std::string ShownPath(std::string_view path) {
  if (path.size() <= kMaxPath) return Escaped(path, kMaxShownPath, false);
  size_t from = path.size() - kMaxPath;
  while (from < path.size() && (static_cast<uint8_t>(path[from]) & 0xC0) == 0x80) ++from;  // not inside a character
  return "..." + Escaped(path.substr(from), kMaxShownPath, false);
}

}  // namespace estream
