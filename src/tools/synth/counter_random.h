// SPDX-License-Identifier: Apache-2.0
// Random bits as a function of a key and a counter, so that any part of a file can be made without the parts before it.
#pragma once

#include <cstdint>
#include <string_view>

namespace estream {

// A bijection on 64 bits whose outputs for consecutive inputs look independent (the finaliser of SplitMix64).
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Number `counter` of the sequence of `key`. Sequences of different keys are shifts of one sequence of length 2^64;
// that two of them overlap within a model is as likely as 1 in 2^28.
constexpr uint64_t RandomBits(uint64_t key, uint64_t counter) { return MixBits(key + counter * 0x9E3779B97F4A7C15u); }

// A key for the thing called `name` under `seed`.
constexpr uint64_t RandomKey(uint64_t seed, std::string_view name) {
  uint64_t key = MixBits(seed ^ 0x6A09E667F3BCC909u);
  for (const char c : name) key = MixBits(key + static_cast<uint8_t>(c));
  return key;
}

// About normal, mean 0 and variance 1, within ±3.47: the sum of four uniform parts of 16 bits each, whose variances are
// (2^32 - 1) / 12. Exact in float up to the last product.
inline float RandomNormal(uint64_t bits) {
  const auto sum =
      static_cast<int32_t>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48));
  return static_cast<float>(sum - 2 * 0xFFFF) * (1.0f / 37837.2f);
}

}  // namespace estream
