// SPDX-License-Identifier: Apache-2.0
// What a run would need and take, from a profile and the model of the pipeline.
#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"
#include "engine/expert_setup.h"
#include "engine/profile_file.h"
#include "engine/shape_plan.h"
#include "estream/tune.h"
#include "format/quote.h"

namespace estream {
namespace {

ExpertShape ShapeOf(const StreamedModel& model, const StreamShape& shape) {
  return {shape.group_size, shape.bank_count, shape.queue_depth, ArenaBytes(model, shape)};
}

}  // namespace

Result<PlanReport> PlanModel(std::shared_ptr<const Model> model, const EngineOptions& options,
                             const std::vector<uint32_t>& lengths) {
  const auto* file = dynamic_cast<const ModelFile*>(model.get());
  if (file == nullptr) return Status::InvalidArgument("the model was not opened by Model::Open");
  if (lengths.empty()) return Status::InvalidArgument("no prompt lengths to plan for");
  const uint32_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (longest > file->plan().context || *std::min_element(lengths.begin(), lengths.end()) < 1) {
    return Status::InvalidArgument(fmt::format("{}: a prompt of {} tokens, the model's context is {}",
                                               ShownPath(file->info().path), longest, file->plan().context));
  }
  const uint32_t max_tokens = std::max(longest, options.max_tokens);
  ES_ASSIGN_OR_RETURN(ShapePlan plan, PlanShape(*file, options, max_tokens, lengths));
  PlanReport report;
  report.schedule = ScheduleName(plan.schedule);
  report.memory_bytes = plan.memory_bytes();
  report.memory = std::move(plan.memory);
  report.budget_bytes = plan.budget_bytes;
  report.budget_source = plan.budget_source;
  if (plan.schedule == Schedule::kResident) return report;
  const StreamedModel streamed = StreamedModelOf(file->plan());
  report.chosen = ShapeOf(streamed, plan.shape);
  if (options.profile == nullptr) return report;
  const auto predict = [&](uint32_t tokens, const StreamShape& shape) {
    return PredictPass(options.profile->times, streamed, tokens, plan.schedule, shape);
  };
  for (const WorkloadLength& length : WorkloadOf(lengths)) report.passes.push_back(predict(length.tokens, plan.shape));
  if (!plan.choice) return report;
  for (const ShapeCandidate& candidate : plan.choice->by_group) {
    double sum = 0;
    for (const uint32_t tokens : lengths) sum += predict(tokens, candidate.shape).ttft_s;
    report.alternatives.push_back({ShapeOf(streamed, candidate.shape), sum / static_cast<double>(lengths.size())});
  }
  return report;
}

}  // namespace estream
