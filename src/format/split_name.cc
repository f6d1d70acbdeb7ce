// SPDX-License-Identifier: Apache-2.0
// The suffix has a fixed width, so it is found from the end.
#include "format/split_name.h"

#include <fmt/format.h>

#include <string_view>

namespace estream {
namespace {

constexpr size_t kDigits = 5;

// The number that the first five characters of `text` are, or nothing.
std::optional<uint32_t> FiveDigits(std::string_view text) {
  uint32_t value = 0;
  for (const char c : text.substr(0, kDigits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

}  // namespace

std::string SplitSuffix(uint32_t number, uint32_t count) { return fmt::format("-{:05}-of-{:05}.gguf", number, count); }

std::optional<SplitName> ParseSplitName(const std::string& path) {
  const size_t length = SplitSuffix(1, 1).size();
  if (path.size() < length) return std::nullopt;
  const std::string_view suffix = std::string_view(path).substr(path.size() - length);
  const auto number = FiveDigits(suffix.substr(1));
  const auto count = FiveDigits(suffix.substr(1 + kDigits + 4));
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  if (suffix != SplitSuffix(*number, *count)) return std::nullopt;
  return SplitName{path.substr(0, path.size() - length), *number, *count};
}

}  // namespace estream
