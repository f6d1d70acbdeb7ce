// SPDX-License-Identifier: Apache-2.0
// Small scanners over what users type.
#include "tools/flag_text.h"

#include <charconv>
#include <cmath>

namespace estream {
namespace {

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

std::string Unescape(std::string_view text) {
  constexpr std::string_view kNames = "ntr\\,";
  constexpr std::string_view kMeanings = "\n\t\r\\,";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t name = text[i] == '\\' && i + 1 < text.size() ? kNames.find(text[i + 1]) : std::string_view::npos;
    if (name == std::string_view::npos) {
      out += text[i];
    } else {
      out += kMeanings[name];
      ++i;
    }
  }
  return out;
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i + 1 < text.size() && text[i] == '\\') {
      ++i;  // whatever follows belongs to the part
    } else if (i == text.size() || text[i] == ',') {
      parts.push_back(Unescape(Trimmed(text.substr(begin, i - begin))));
      begin = i + 1;
    }
  }
  return parts;
}

std::optional<std::vector<int32_t>> ParseTokenIds(std::string_view text) {
  std::vector<int32_t> ids;
  for (const std::string& part : SplitList(text)) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), id);
    if (error != std::errc() || end != part.data() + part.size() || id < 0) return std::nullopt;
    ids.push_back(id);
  }
  return ids;
}

std::optional<uint64_t> ParseBytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  constexpr std::string_view kPrefixes = "KMGT";
  const size_t power = unit.empty() ? std::string_view::npos : kPrefixes.find(static_cast<char>(unit[0] & ~0x20));
  if (power != std::string_view::npos) {
    const std::string_view rest = unit.substr(1);
    if (!rest.empty() && rest != "iB" && rest != "B") return std::nullopt;
    number *= std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  } else if (!unit.empty() && unit != "B") {
    return std::nullopt;
  }
  if (!(number >= 1 && number <= 0x1p50)) return std::nullopt;
  return static_cast<uint64_t>(number);
}

std::string WithoutFinalNewline(std::string text) {
  if (!text.ends_with('\n')) return text;
  text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(WithoutFinalNewline(std::string(text.substr(0, end == std::string_view::npos ? end : end + 1))));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace estream
