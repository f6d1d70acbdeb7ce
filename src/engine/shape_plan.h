// SPDX-License-Identifier: Apache-2.0
// How experts will stream and what everything will hold, before anything is loaded.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_file.h"
#include "estream/engine.h"
#include "estream/tune.h"
#include "pipeline/tuner.h"

namespace estream {

struct ShapePlan {
  Schedule schedule = Schedule::kStream;
  StreamShape shape;              // not for kResident
  std::vector<MemoryUse> memory;  // all of it, largest first
  uint64_t budget_bytes = 0;      // 0: no limit known
  std::string budget_source;
  std::optional<ShapeChoice> choice;  // when the shape was chosen by a profile

  uint64_t memory_bytes() const;
};

// Chooses the shape of prompts of `lengths` (not above max_tokens) and holds all memory against the budget.
//
// Errors: InvalidArgument for flags that make no sense together; OverBudget with the floor and its largest parts.
Result<ShapePlan> PlanShape(const ModelFile& model, const EngineOptions& options, uint32_t max_tokens,
                            const std::vector<uint32_t>& lengths);

PredictedPass PredictPass(const ServiceProfile& times, const StreamedModel& model, uint32_t tokens, Schedule schedule,
                          const StreamShape& shape);

// Lengths with their shares, ascending.
std::vector<WorkloadLength> WorkloadOf(const std::vector<uint32_t>& lengths);

}  // namespace estream
