// SPDX-License-Identifier: Apache-2.0
// Escapes, colours and widths.
#include "tools/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "text/utf8.h"

namespace estream {
namespace {

// Marks that reorder what follows (U+200E-F, U+202A-E, U+2066-9) could make a label read as another one.
bool ChangesDirection(uint32_t c) {
  return c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

bool IsControl(uint32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029; }

std::string Styled(std::string_view text, const char* code, bool on) {
  return on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace

void Write(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Status FlushOutput() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return Status::Ok();
  return Status::Io(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

void PrintError(std::string_view message) {
  constexpr size_t kMaxMessage = 280;
  std::string line = OneLine(message);
  if (line.size() > kMaxMessage) {
    size_t end = kMaxMessage - 3;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // not inside a character
    line = line.substr(0, end) + "...";
  }
  line = Bold("estream:", UsesColour(stderr)) + " " + line + "\n";
  std::fflush(stdout);  // what was found before the mistake comes first
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void PrintNotice(std::string_view message) {
  const std::string line = OneLine(message) + "\n";
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool IsTerminal(std::FILE* file) { return isatty(fileno(file)) == 1; }

bool UsesColour(std::FILE* file) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return IsTerminal(file) && term != nullptr && std::strcmp(term, "dumb") != 0;
}

std::string Bold(std::string_view text, bool on) { return Styled(text, "1", on); }
std::string Dim(std::string_view text, bool on) { return Styled(text, "2", on); }

std::string OneLine(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    if (c.valid && c.code_point == '\n') {
      out += "\\n";
    } else if (c.valid && c.code_point == '\t') {
      out += "\\t";
    } else if (c.valid && c.code_point == '\r') {
      out += "\\r";
    } else if (c.valid && !IsControl(c.code_point) && !ChangesDirection(c.code_point)) {
      out.append(text, at, c.bytes);
    } else {
      for (uint32_t i = 0; i < c.bytes; ++i) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at + i]));
    }
    at += c.bytes;
  }
  return out;
}

size_t Columns(std::string_view text) {
  size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return columns;
}

std::string Fit(std::string_view text, size_t columns) {
  const size_t have = Columns(text);
  if (have <= columns) return std::string(text) + std::string(columns - have, ' ');
  const std::string_view mark = std::string_view("...").substr(0, columns);
  size_t end = 0;
  for (size_t kept = 0; end < text.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (starts && kept++ == columns - mark.size()) break;
  }
  return std::string(text.substr(0, end)).append(mark);
}

size_t TerminalColumns(size_t otherwise) {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace estream
