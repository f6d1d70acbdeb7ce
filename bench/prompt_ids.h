// SPDX-License-Identifier: Apache-2.0
// A prompt for measurements.
#pragma once

#include <cstdint>
#include <vector>

namespace estream {

// Ids spread over the vocabulary, the same in every run.
inline std::vector<int32_t> PromptIds(uint32_t count, uint32_t vocabulary) {
  std::vector<int32_t> ids;
  for (uint32_t i = 0, state = 1; i < count; ++i) {
    state = state * 69069 + 1;
    ids.push_back(static_cast<int32_t>(state % vocabulary));
  }
  return ids;
}

}  // namespace estream
