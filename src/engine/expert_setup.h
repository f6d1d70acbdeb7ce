// SPDX-License-Identifier: Apache-2.0
// What a plan says about streaming its experts, and starting the stream of a pack.
#pragma once

#include <memory>
#include <string>

#include "engine/model_file.h"
#include "estream/engine.h"
#include "model/graph_set.h"
#include "pipeline/service_profile.h"
#include "pipeline/streaming_experts.h"

namespace estream {

// The most that one call binds when prompts have `max_tokens`.
Capacity CapacityOf(const ModelPlan& plan, uint32_t max_tokens);

StreamedModel StreamedModelOf(const ModelPlan& plan);

// Errors: InvalidArgument, listing the known names.
Result<ReadEngineOptions::Kind> ParseStorage(const std::string& name);

// Errors: InvalidArgument, listing the known names.
Result<EarlyOrder> ParseEarlyOrder(const std::string& name);

// The schedule that `options` ask for: that of their name, else "stream" for a pack and "resident" for a model file.
Result<Schedule> ScheduleOf(const ModelFile& model, const ExpertOptions& options);

// Starts to stream the experts of `plan`, the model's or a part of it.
//
// Errors: InvalidArgument when the model is no pack or the schedule cannot run with `shape`; OverBudget; Io.
Result<std::unique_ptr<StreamingExperts>> StreamFromPack(const ModelFile& model, const ModelPlan& plan,
                                                         const GraphSet& graphs, const ExpertOptions& options,
                                                         Schedule schedule, const StreamShape& shape,
                                                         const Capacity& capacity, ComputeClock* clock, Device* device);

}  // namespace estream
