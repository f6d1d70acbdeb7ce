// SPDX-License-Identifier: Apache-2.0
// YaRN's ramp, with the constants of its paper: 32 turns are fast, 1 is slow.
#include "graph/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace estream {
namespace {

// The pair that makes `turns` turns within the original context.
double PairOfTurns(const RopeSpec& rope, double turns) {
  return rope.dims * std::log(rope.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(double{rope.base}));
}

}  // namespace

double RopeFrequency(const RopeSpec& rope, uint32_t pair) {
  const double frequency = std::pow(double{rope.base}, -2.0 * pair / rope.dims);
  if (rope.original_context == 0) return frequency / rope.factor;
  const double low = std::max(std::floor(PairOfTurns(rope, 32)), 0.0);
  const double high = std::min(std::ceil(PairOfTurns(rope, 1)), rope.dims - 1.0);
  const double ramp = std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
  return frequency * (1 - ramp) + frequency / rope.factor * ramp;
}

}  // namespace estream
