// SPDX-License-Identifier: Apache-2.0
// A prompt for measurements.
#pragma once

#include <cstdint>
#include <vector>

namespace estream {

// Ids spread over the vocabulary, the same in every run; other seeds give other prompts.
inline std::vector<int32_t> PromptIds(uint32_t count, uint32_t vocabulary, uint32_t seed = 1) {
  std::vector<int32_t> ids;
  for (uint32_t i = 0, state = seed; i < count; ++i) {
    state = state * 69069 + 1;
    ids.push_back(static_cast<int32_t>(state % vocabulary));
  }
  return ids;
}

}  // namespace estream
