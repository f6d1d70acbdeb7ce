// SPDX-License-Identifier: Apache-2.0
// Names of the files of a split set: PREFIX-00001-of-00003.gguf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace estream {

struct SplitName {
  std::string prefix;   // with the folder
  uint32_t number = 0;  // 1-based
  uint32_t count = 0;
};

// Nothing when `path` is not such a name or its numbers make no sense (0, or number > count).
std::optional<SplitName> ParseSplitName(const std::string& path);

// "-00001-of-00003.gguf"
std::string SplitSuffix(uint32_t number, uint32_t count);

}  // namespace estream
