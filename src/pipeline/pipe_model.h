// SPDX-License-Identifier: Apache-2.0
// When a request would finish: eq. 5, and its event simulation over a whole tape. Pure: no clock, thread or file.
//                                                                                                      (§3.4, eq. 5)
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/schedule.h"

namespace estream {

// One group of experts of one request, by its service times.
struct ModelGroup {
  uint64_t read_ns = 0;  // L: the read of the whole group, with Q reads in flight; above 0
  uint64_t exec_ns = 0;  // X: all its routes; not used when not routed
  bool routed = true;    // at least one route goes to it
  // With sparse reads, the runs of routed records, each a read of its own, when the group is first read after its
  // layer's routes are known; empty: the whole group.
  std::vector<uint64_t> run_ns;
};

// One sparse layer: what the device does before its routes are known, then its groups in pack order.
struct ModelLayer {
  uint64_t block_ns = 0;  // T_ne
  std::vector<ModelGroup> groups;
  // Whether its groups may be read before its routes are known, as the schedule does; not where few routes are
  // expected. A layer where they may not is followed by none where they may.
  bool early = true;
};

struct ModelRequest {
  std::vector<ModelLayer> layers;
  uint64_t tail_ns = 0;  // behind the last group: dense layers, norm, head
};

// When it finished, from StartRequest to the end of the tail, and what was done until then.
struct ModelOutcome {
  uint64_t total_ns = 0;
  uint64_t exec_ns = 0;   // T_exec: blocks, groups and tail
  uint64_t io_ns = 0;     // T_io: length of the union of read intervals
  uint64_t stall_ns = 0;  // the executor waited for a group
  uint64_t reads = 0;
  uint64_t wasted_reads = 0;  // read and not routed to

  // 1 - max(T_io, T_exec) / T_total.                                                                        (Fig. 6)
  double bubble_rate() const;

  bool operator==(const ModelOutcome&) const = default;
};

// T_pipe of one layer by itself: groups that are not routed are left out, all others are read in order, starting with
// the layer.                                                                                                  (eq. 5)
//
// Pre: 1 <= queue_depth <= bank_count.
uint64_t LayerTime(const ModelLayer& layer, uint32_t queue_depth, uint32_t bank_count);

// The request under `schedule` with shape.bank_count banks and shape.queue_depth reads in flight, beginning with empty
// banks, or with the first `filled` groups of the tape in theirs, as after a request of a stream that was kept warm.
// What differs from eq. 5: reading goes on across layers (stream), completions may be out of order, a read that
// starts after its layer's routes are known skips groups without routes, and a group read in vain frees its bank when
// it is there and known to be in vain. Early reads are in pack order. At one instant completed reads come first, then
// the executor.
//
// Equals what Loader and StreamingExperts do, to the nanosecond, when reads and calls take exactly these times.
//
// Cost: O(groups · log B); allocates nothing per group.
// Pre:  a schedule that streams, and a shape it can run (CheckShape); filled <= bank_count, 0 unless reads begin early.
ModelOutcome Simulate(const ModelRequest& request, Schedule schedule, const StreamShape& shape, uint32_t filled = 0);

}  // namespace estream
