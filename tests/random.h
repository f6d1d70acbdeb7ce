// SPDX-License-Identifier: Apache-2.0
// Reproducible random values for tests. Print the seed where a failure must be repeatable: SCOPED_TRACE(random.seed()).
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace estream {

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed), engine_(seed) {}

  uint64_t seed() const { return seed_; }
  uint64_t Bits() { return engine_(); }
  // A number in [0, n). Pre: n > 0. The bias of the remainder does not matter here.
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(engine_() % n); }
  float Uniform(float low, float high) { return low + (high - low) * (static_cast<float>(engine_() >> 40) * 0x1p-24f); }
  std::vector<float> Floats(size_t n, float low = -1, float high = 1) {
    std::vector<float> values(n);
    for (float& v : values) v = Uniform(low, high);
    return values;
  }

 private:
  const uint64_t seed_;
  std::mt19937_64 engine_;
};

}  // namespace estream
