// SPDX-License-Identifier: Apache-2.0
// The table of schedules.
#include "pipeline/schedule.h"

#include <fmt/format.h>

namespace estream {
namespace {

struct Row {
  Schedule schedule;
  const char* name;
  uint32_t min_banks;
};

// One bank suffices to make progress; reading ahead of the executor takes a second.
constexpr Row kRows[] = {
    {Schedule::kStream, "stream", 2},
    {Schedule::kPerLayer, "per-layer", 2},
    {Schedule::kAfterRouting, "after-routing", 2},
    {Schedule::kOnDemand, "on-demand", 1},
    {Schedule::kResident, "resident", 0},
};

const Row& RowOf(Schedule schedule) {
  for (const Row& r : kRows) {
    if (r.schedule == schedule) return r;
  }
  return kRows[0];
}

}  // namespace

Result<Schedule> ParseSchedule(std::string_view name) {
  std::string known;
  for (const Row& r : kRows) {
    if (name == r.name) return r.schedule;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", r.name);
  }
  return Status::InvalidArgument(fmt::format("unknown schedule \"{}\" (known: {})", name.substr(0, 40), known));
}

const char* ScheduleName(Schedule schedule) { return RowOf(schedule).name; }

Status CheckShape(Schedule schedule, const StreamShape& shape, uint32_t experts) {
  if (schedule == Schedule::kResident) return Status::Ok();
  const Row& row = RowOf(schedule);
  if (shape.group_size < 1 || shape.group_size > experts) {
    return Status::InvalidArgument(fmt::format("a group of {} experts, expected 1..{}", shape.group_size, experts));
  }
  if (shape.bank_count < row.min_banks) {
    return Status::InvalidArgument(
        fmt::format("{} banks, schedule \"{}\" needs at least {}", shape.bank_count, row.name, row.min_banks));
  }
  if (shape.queue_depth < 1 || shape.queue_depth > shape.bank_count) {
    return Status::InvalidArgument(
        fmt::format("a queue depth of {}, expected 1..{}, the number of banks", shape.queue_depth, shape.bank_count));
  }
  return Status::Ok();
}

}  // namespace estream
