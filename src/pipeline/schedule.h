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
};

// Errors: InvalidArgument, listing the known names.
Result<Schedule> ParseSchedule(std::string_view name);
const char* ScheduleName(Schedule schedule);

// How a stream of expert groups is cut and buffered.
struct StreamShape {
  uint32_t group_size = 4;   // G
  uint32_t bank_count = 3;   // B
  uint32_t queue_depth = 2;  // Q
};

// Whether `schedule` can run with `shape` on layers of `experts` experts: 1 <= G <= E, 1 <= Q <= B, and enough banks.
// Errors: InvalidArgument naming the flag, its value and what the schedule needs.
Status CheckShape(Schedule schedule, const StreamShape& shape, uint32_t experts);

}  // namespace estream
