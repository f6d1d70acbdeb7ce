// SPDX-License-Identifier: Apache-2.0
// The frequencies of rotary position embedding, the same on every device.
#pragma once

#include "graph/block_graph.h"

namespace estream {

// Radians a position of pair `pair` < dims / 2, in double:
//   f = base^(-2 pair / dims);  linear: f / factor
//   YaRN: f (e + (1 - e) / factor), where e falls from 1 to 0 along the pairs between floor(d(32)) and ceil(d(1)), and
//   d(r) = dims ln(original_context / (2 pi r)) / (2 ln base) is the pair that turns r times within the original
//   context.
double RopeFrequency(const RopeSpec& rope, uint32_t pair);

}  // namespace estream
