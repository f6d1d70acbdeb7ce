// SPDX-License-Identifier: Apache-2.0
// Random rows in GGUF layout for tests: every byte is random, scales stay finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "format/weight_format.h"

namespace estream {

// `rows` rows of `cols` elements, one after the other.
inline std::vector<std::byte> RandomBlocks(WeightFormat format, uint64_t rows, uint64_t cols, std::mt19937& rng) {
  const WeightFormatTraits& traits = Traits(format);
  std::vector<std::byte> out(rows * RowBytes(format, cols));
  for (size_t at = 0; at < out.size(); at += traits.block_bytes) {
    do {
      for (uint32_t i = 0; i < traits.block_bytes; ++i) out[at + i] = static_cast<std::byte>(rng());
    } while (FindNonFinite(format, out.data() + at, traits.block_elements));
  }
  return out;
}

}  // namespace estream
