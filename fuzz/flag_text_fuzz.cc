// SPDX-License-Identifier: Apache-2.0
// Any text as what flags and files hold: escapes, comma lists, token ids, lines. What is split comes back when joined.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/macros.h"
#include "tools/flag_text.h"

namespace estream {
namespace {

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == ',') out += '\\';
    out += c;
  }
  return out;
}

void RunList(const std::string& text) {
  ES_CHECK(Unescape(Escape(text)) == text && Unescape(text).size() <= text.size());
  const std::vector<std::string> parts = SplitList(text);
  std::string joined, bare;
  for (const std::string& part : parts) {
    joined.append(joined.empty() && &part == &parts.front() ? "" : ",").append(Escape(part));
  }
  ES_CHECK(!parts.empty() && SplitList(joined) == parts);

  const auto ids = ParseTokenIds(text);
  if (!ids) return;
  ES_CHECK(ids->size() == parts.size());
  for (size_t i = 0; i < ids->size(); ++i) {
    ES_CHECK((*ids)[i] >= 0);
    bare.append(i == 0 ? "" : ",").append(std::to_string((*ids)[i]));
  }
  ES_CHECK(ParseTokenIds(bare) == ids);
}

void RunBytes(const std::string& text) {
  if (const auto bytes = ParseBytes(text)) {
    ES_CHECK(*bytes >= 1 && *bytes <= uint64_t{1} << 50 && ParseBytes(std::to_string(*bytes)) == bytes);
  }
}

void RunLines(const std::string& text) {
  const std::vector<std::string> lines = SplitLines(text);
  size_t at = 0;  // of the line in `text`
  for (const std::string& line : lines) {
    ES_CHECK(line.find('\n') == std::string::npos && text.compare(at, line.size(), line) == 0);
    at += line.size();
    if (at < text.size() && text[at] == '\r') ++at;
    if (at < text.size()) ES_CHECK(text[at++] == '\n');
  }
  ES_CHECK(at == text.size());
  const std::string shorter = WithoutFinalNewline(text);
  ES_CHECK(text.starts_with(shorter) && text.size() - shorter.size() <= 2);
  ES_CHECK(shorter.size() == text.size() || text.ends_with('\n'));
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  estream::RunList(text);
  estream::RunLines(text);
  estream::RunBytes(text);
  return 0;
}
