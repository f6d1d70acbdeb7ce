// SPDX-License-Identifier: Apache-2.0
// The table of schedules.
#include "pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/macros.h"

namespace estream {
namespace {

struct Row {
  Schedule schedule;
  const char* name;
  uint32_t min_banks;
  Reach reach;
  bool own_shape;
};

// One bank suffices to make progress; reading ahead of the executor takes a second.
constexpr Row kRows[] = {
    {Schedule::kStream, "stream", 2, Reach::kTape, false},
    {Schedule::kPerLayer, "per-layer", 2, Reach::kLayer, false},
    {Schedule::kAfterRouting, "after-routing", 2, Reach::kRouted, false},
    {Schedule::kOnDemand, "on-demand", 1, Reach::kAsked, false},
    {Schedule::kNaive, "naive", 3, Reach::kTape, true},
    {Schedule::kLayer2, "layer-2", 2, Reach::kTape, true},
    {Schedule::kLayerAll, "layer-all", 1, Reach::kTape, true},
    {Schedule::kGraphPerExpert, "graph-per-expert", 1, Reach::kAsked, true},
    {Schedule::kResident, "resident", 0, Reach::kAsked, true},
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

bool ReadsSparse(Schedule schedule) { return schedule == Schedule::kStream; }

bool ReadsLayerEarly(Schedule schedule, uint64_t routes, uint32_t experts) {
  return ReadsEarly(schedule) && (!ReadsSparse(schedule) || routes >= experts / 2);
}

Reach ReachOf(Schedule schedule) { return RowOf(schedule).reach; }

uint32_t MinBanks(Schedule schedule) { return RowOf(schedule).min_banks; }

bool HasOwnShape(Schedule schedule) { return RowOf(schedule).own_shape; }

Result<StreamShape> ResolveShape(Schedule schedule, const StreamShape& asked, uint32_t experts, uint32_t layers) {
  StreamShape shape;
  if (schedule == Schedule::kNaive) {
    shape = {1, 3, 1};
  } else if (schedule == Schedule::kLayer2) {
    shape = {experts, 2, 2};
  } else if (schedule == Schedule::kLayerAll) {
    shape = {experts, layers, std::min(2u, layers)};
  } else if (schedule == Schedule::kGraphPerExpert) {
    shape = {1, 1, 1};
  } else {
    if (asked.bank_count != 0) shape.bank_count = asked.bank_count;
    shape.group_size = asked.group_size != 0 ? asked.group_size : std::min(shape.group_size, experts);
    shape.queue_depth = asked.queue_depth != 0 ? asked.queue_depth : std::min(shape.queue_depth, shape.bank_count);
    ES_RETURN_IF_ERROR(CheckShape(schedule, shape, experts));
    return shape;
  }
  for (const auto& [flag, own, wanted] : {std::tuple("--group", shape.group_size, asked.group_size),
                                          std::tuple("--banks", shape.bank_count, asked.bank_count),
                                          std::tuple("--queue-depth", shape.queue_depth, asked.queue_depth)}) {
    if (wanted == 0 || wanted == own) continue;
    return Status::InvalidArgument(
        fmt::format("{} {}: schedule \"{}\" has {} of its own", flag, wanted, ScheduleName(schedule), own));
  }
  return shape;
}

const char* ScheduleName(Schedule schedule) { return RowOf(schedule).name; }

Status CheckShape(Schedule schedule, const StreamShape& shape, uint32_t experts) {
  if (schedule == Schedule::kResident) return Status::Ok();
  const Row& row = RowOf(schedule);
  if (shape.group_size < 1 || shape.group_size > experts) {
    return Status::InvalidArgument(
        fmt::format("--group {}: expected 1..{}, the experts of a layer", shape.group_size, experts));
  }
  if (shape.bank_count < row.min_banks) {
    return Status::InvalidArgument(
        fmt::format("--banks {}: schedule \"{}\" needs at least {}", shape.bank_count, row.name, row.min_banks));
  }
  if (shape.queue_depth < 1 || shape.queue_depth > shape.bank_count) {
    return Status::InvalidArgument(
        fmt::format("--queue-depth {}: expected 1..{}, the number of banks", shape.queue_depth, shape.bank_count));
  }
  return Status::Ok();
}

}  // namespace estream
