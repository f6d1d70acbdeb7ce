// SPDX-License-Identifier: Apache-2.0
// One key/value head with the query heads that share it: heads are alike, and threads take different ones.
#include "bench/attention_speed.h"

#include <fmt/format.h>

#include <limits>
#include <random>
#include <vector>

#include "device/cpu/key_value.h"
#include "kernels/half_floats.h"
#include "kernels/matmul.h"

namespace estream {
namespace {

constexpr uint32_t kLength = 4096;
constexpr uint32_t kDim = 128;
constexpr float kScale = 0.088388f;  // 1 / sqrt(kDim)

std::vector<float> RandomFloats(uint64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<float> x(n);
  for (float& v : x) v = uniform(rng);
  return x;
}

// Keys, values, queries of one key/value head, and the working memory of one thread.
class Head {
 public:
  Head(uint32_t group, bool half) : group_(group), q_(RandomFloats(uint64_t{kLength} * group * kDim, 1)) {
    const std::vector<float> rows = RandomFloats(uint64_t{kLength} * kDim, 2);
    kv_.kv_heads = 1;
    kv_.key_dim = kv_.value_dim = kDim;
    kv_.blocks = kLength / kKeyBlock;
    kv_.half = half;
    keys_.resize(uint64_t{kLength} * kDim);
    values_.resize(uint64_t{kLength} * kDim);
    kv_.keys = reinterpret_cast<std::byte*>(keys_.data());
    kv_.values = reinterpret_cast<std::byte*>(values_.data());
    for (uint32_t block = 0; block < kv_.blocks; ++block) {
      const float* const first = rows.data() + uint64_t{block} * kKeyBlock * kDim;
      StoreKeys(kv_, 0, block, first, kDim, kKeyBlock, 0, kDim);
      StoreValues(kv_, 0, block, first, kDim, kKeyBlock);
    }
  }

  void AttendAll() {
    for (uint32_t first = 0; first < kLength; first += kQueryRows) {
      uint32_t positions[kQueryRows];
      for (uint32_t r = 0; r < kQueryRows; ++r) positions[r] = first + r;
      const AttendScratch scratch = {scores_.data(), sums_.data(),       max_.data(),
                                     sum_.data(),    float_keys_.data(), float_values_.data()};
      Attend(kv_, 0, group_, positions, kQueryRows, kScale, q_.data() + uint64_t{first} * group_ * kDim, group_ * kDim,
             out_.data(), group_ * kDim, scratch);
    }
  }

  double macs() const {
    double blocks = 0;
    for (uint32_t first = 0; first < kLength; first += kQueryRows) blocks += (first + kQueryRows) / kKeyBlock;
    return blocks * group_ * kQueryRows * kKeyBlock * 2 * kDim;
  }

 private:
  uint32_t group_;
  KeyValue kv_;
  std::vector<float> keys_, values_;  // room for floats
  std::vector<float> q_, out_ = std::vector<float>(uint64_t{kQueryRows} * group_ * kDim);
  std::vector<float> scores_ = std::vector<float>(kQueryRows * kKeyBlock);
  std::vector<float> sums_ = std::vector<float>(uint64_t{kQueryRows} * group_ * kDim);
  std::vector<float> max_ = std::vector<float>(kQueryRows * group_), sum_ = max_;
  std::vector<float> float_keys_ = std::vector<float>(kDim * kKeyBlock), float_values_ = float_keys_;
};

}  // namespace

ReportTable MeasureAttention(const Effort& effort, double fma_peak) {
  ReportTable table = {.title = fmt::format("Attention, {} tokens, heads of {}, 1 core", kLength, kDim),
                       .label = "query heads a key/value head",
                       .columns = {"GMAC/s", "% of peak"},
                       .rows = {}};
  for (const bool half : {true, false}) {
    for (const uint32_t group : {1, 8}) {
      Head head(group, half);
      const double speed = 1e-9 * head.macs() / MedianSeconds(effort, kThreadClock, [&] { head.AttendAll(); });
      table.rows.push_back(
          {fmt::format("{} ({}), {}", group, group == 1 ? "OLMoE" : "Qwen3", half ? "16-bit floats" : "floats"),
           {speed, 100 * speed / fma_peak}});
    }
  }
  return table;
}

}  // namespace estream
