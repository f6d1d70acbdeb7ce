// SPDX-License-Identifier: Apache-2.0
// When experts are read: the schedules, by name, and what each asks of the arena.                            (§3.4)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "estream/status.h"

namespace estream {

enum class Schedule : uint8_t {
  kResident,      // everything is loaded at open
  kOnDemand,      // a group is read when its turn comes
  kAfterRouting,  // a layer's groups are read ahead once its routes are known
  kPerLayer,      // and before that, in pack order, while the layer's other work runs: the paper's pipeline
  kStream,        // the same across layers and requests: reading never stops while a bank is free
  // kStream with a shape of its own, for comparison (§5.6):
  kNaive,     // one expert a read, one read at a time
  kLayer2,    // two banks of a whole layer
  kLayerAll,  // a bank of a whole layer for each layer
  // kOnDemand for single experts, each with a graph that is built for it and dropped after it: what a graph runtime
  // does that cannot bind addresses late.
  kGraphPerExpert,
};

// Errors: InvalidArgument, listing the known names.
Result<Schedule> ParseSchedule(std::string_view name);
const char* ScheduleName(Schedule schedule);

// How far ahead of the executor groups are read. Not for kResident.
enum class Reach : uint8_t {
  kAsked,   // when the executor waits for them
  kRouted,  // once their layer's routes are known
  kLayer,   // from the beginning of their layer on
  kTape,    // at any time
};
Reach ReachOf(Schedule schedule);

// Whether reads begin before the routes of their layer are known.
inline bool ReadsEarly(Schedule schedule) { return ReachOf(schedule) >= Reach::kLayer; }

// Whether of a group with few routed experts only these may be read. The paper's schedules read whole groups.
bool ReadsSparse(Schedule schedule);

// Whether a layer that will have `routes` routes to its `experts` experts is read early. Of a layer with few most would
// be read in vain, while what the layer before still needs waits behind it: a schedule with sparse reads leaves it out.
bool ReadsLayerEarly(Schedule schedule, uint64_t routes, uint32_t experts);

// The fewest banks a schedule can run with.
uint32_t MinBanks(Schedule schedule);

// Whether nothing of the shape can be chosen.
bool HasOwnShape(Schedule schedule);

// How a stream of expert groups is cut and buffered. What stands here serves where nothing was measured: many small
// groups wait less for one another than few large ones of the same bytes.
struct StreamShape {
  uint32_t group_size = 2;   // G
  uint32_t bank_count = 6;   // B
  uint32_t queue_depth = 2;  // Q
};

// The shape of `schedule` on `layers` layers of `experts` experts: what is asked for, with 2, 6, 2 (at most E, B) where
// that is 0, or the schedule's own.
//
// Errors: InvalidArgument when what is asked for is not the schedule's own shape, or as CheckShape.
Result<StreamShape> ResolveShape(Schedule schedule, const StreamShape& asked, uint32_t experts, uint32_t layers);

// Whether `schedule` can run with `shape` on layers of `experts` experts: 1 <= G <= E, 1 <= Q <= B, and enough banks.
// Errors: InvalidArgument naming the flag, its value and what the schedule needs.
Status CheckShape(Schedule schedule, const StreamShape& shape, uint32_t experts);

}  // namespace estream
