// SPDX-License-Identifier: Apache-2.0
// A call whose references have become addresses, all checked: what devices in the host's memory run.  (§3.2)
#pragma once

#include <cstdint>
#include <span>

#include "device/buffer_table.h"
#include "device/device.h"
#include "graph/block_graph.h"
#include "graph/expert_graph.h"

namespace estream {

// Every route's token is in range and its expert in a slot; every slot named by `placement` of a routed expert holds a
// whole record inside `arena`.
struct BoundExpertCall {
  std::span<const Route> routes;
  std::span<const int32_t> placement;
  uint32_t slot_count = 0;
  uint64_t slot_stride = 0;
  uint32_t tokens = 0;
  bool same_x = false;
  const float* x = nullptr;
  float* y = nullptr;
  const std::byte* arena = nullptr;
};

// The fields that the spec's kind uses are set and in range; nothing is when there are no rows.
struct BoundBlockCall {
  uint32_t tokens = 0;
  uint32_t rows = 0;
  uint32_t first_row = 0;
  uint32_t row_count = 0;
  uint32_t out_stride = 0;
  const std::byte* weights = nullptr;
  const float* in = nullptr;
  float* out = nullptr;
  const uint32_t* row_ids = nullptr;  // null: rows 0..rows-1
  Route* routes = nullptr;

  // The row of `in` that row r of `out` is computed from.
  uint32_t row_id(uint32_t r) const { return row_ids == nullptr ? r : row_ids[r]; }
};

// Errors: InvalidArgument when the call exceeds `capacity`, a reference leaves its buffer or is not aligned to 4 bytes,
// a row, token or expert is out of range, an expert is in no slot, or buffers overlap that must not; nothing is
// written.
//
// Pre: CheckSpec(spec, capacity) is ok.  Cost: O(routes + row_ids), no allocation.
Result<BoundExpertCall> Bind(const ExpertSpec& spec, const Capacity& capacity, const BufferTable& buffers,
                             const ExpertInvocation& call);
Result<BoundBlockCall> Bind(const BlockSpec& spec, const Capacity& capacity, const BufferTable& buffers,
                            const BlockInvocation& call);

}  // namespace estream
