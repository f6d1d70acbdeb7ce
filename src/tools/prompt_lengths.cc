// SPDX-License-Identifier: Apache-2.0
// Reading lengths.
#include "tools/prompt_lengths.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"
#include "format/file.h"
#include "format/quote.h"
#include "tools/flag_text.h"

namespace estream {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;
constexpr size_t kMostLengths = 8;
constexpr int32_t kLongest = 1 << 24;

}  // namespace

std::optional<std::vector<uint32_t>> ParseLengths(std::string_view text) {
  const auto numbers = ParseTokenIds(text);
  if (!numbers) return std::nullopt;
  std::vector<uint32_t> lengths;
  for (const int32_t n : *numbers) {
    if (n < 1 || n > kLongest) return std::nullopt;
    lengths.push_back(static_cast<uint32_t>(n));
  }
  return lengths;
}

Result<std::vector<uint32_t>> ReadLengths(const std::string& list_or_file) {
  if (auto list = ParseLengths(list_or_file)) return std::move(*list);
  ES_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(list_or_file, kMaxFileBytes));
  std::vector<uint32_t> all;
  const std::vector<std::string> lines = SplitLines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const auto line = ParseLengths(lines[i]);
    if (!line) {
      return Status::InvalidArgument(fmt::format("{}: line {}: expected a prompt length, found {}",
                                                 ShownPath(list_or_file), i + 1, Quoted(lines[i])));
    }
    all.insert(all.end(), line->begin(), line->end());
  }
  if (all.empty()) return Status::InvalidArgument(fmt::format("{} holds no lengths", ShownPath(list_or_file)));
  std::sort(all.begin(), all.end());
  if (all.size() <= kMostLengths) return all;
  std::vector<uint32_t> chosen;  // the middles of equal shares
  for (size_t i = 0; i < kMostLengths; ++i) chosen.push_back(all[(2 * i + 1) * all.size() / (2 * kMostLengths)]);
  return chosen;
}

}  // namespace estream
