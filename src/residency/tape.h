// SPDX-License-Identifier: Apache-2.0
// The tape: the records of a request in the order of their use.
#pragma once

#include <cstdint>
#include <vector>

#include "residency/group_layout.h"

namespace estream {

// One read: a group of experts, a block record, a head panel. It fills one bank of its arena.
struct TapeRecord {
  uint32_t arena = 0;  // number of the arena
  uint32_t layer = 0;  // (layer, group) names it within its arena
  uint32_t group = 0;
  uint32_t slots = 1;         // records in it: G, fewer in a short last group, 1 for what is no group
  uint32_t file = 0;          // number of the file in the read engine
  bool routed = false;        // whether it is needed is known only from Decide; else it is always needed
  uint64_t offset = 0;        // in the file
  uint64_t record_bytes = 0;  // of one slot

  uint64_t bytes() const { return slots * record_bytes; }
  bool operator==(const TapeRecord&) const = default;
};

// Rules, checked by TapeWalk::Start: no (arena, layer, group) twice; the routed records of a layer stand together, in
// one arena, groups 0, 1, 2, ... in order.
//
// A tape depends on the plan only, not on the prompt: it is made once and shared by requests.
struct Tape {
  std::vector<TapeRecord> records;

  // Appends a layer's groups in pack order.
  void AppendGroups(const GroupLayout& layout, uint32_t arena, uint32_t layer, uint32_t file) {
    for (uint32_t g = 0; g < layout.group_count(); ++g) {
      records.push_back(
          {arena, layer, g, layout.experts_in(g), file, true, layout.range(g).offset, layout.record_bytes});
    }
  }

  // The indices of all routed records, in order: early loading in pack order, as the paper does it.
  std::vector<uint32_t> RoutedInOrder() const {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < records.size(); ++i) {
      if (records[i].routed) order.push_back(i);
    }
    return order;
  }
};

}  // namespace estream
