// SPDX-License-Identifier: Apache-2.0
// M_other is not guessed: the device and the pass take their buffers as they would, without touching them, and the
// ledger says how much that is.
#include "engine/shape_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/ledger.h"
#include "base/machine.h"
#include "base/macros.h"
#include "engine/expert_setup.h"
#include "engine/profile_file.h"
#include "format/quote.h"
#include "model/prefill.h"

namespace estream {
namespace {

// What the kernel charges and no ledger sees: page tables, rings, per-processor batches, thread stacks.
constexpr uint64_t kReserveBytes = uint64_t{4} << 20;
constexpr const char* kArenaName = "expert arena";
// How much slower than the best an arena may be that is chosen without --memory.
constexpr double kDefaultTolerance = 0.01;

// What is held beside experts.                                                                          (M_other, eq.
// 8)
Result<std::vector<MemoryUse>> MemoryBesideExperts(const ModelFile& model, const EngineOptions& options,
                                                   uint32_t max_tokens) {
  const ModelPlan& plan = model.plan();
  // Resident now: program, tokenizer, header.
  std::vector<MemoryUse> uses = {{"program and tokenizer", ResidentBytes()}, {"reserve for the kernel", kReserveBytes}};
  uint64_t blocks = plan.final_record.bytes + plan.head_record.bytes;
  for (const LayerPlan& layer : plan.layers) blocks += layer.block.bytes;
  uses.push_back({"non-expert weights", blocks});

  MemoryLedger ledger;
  ES_ASSIGN_OR_RETURN(const auto device,
                      MakeDevice({options.device, options.threads, &ledger, options.activations, nullptr}));
  ES_ASSIGN_OR_RETURN(const GraphSet graphs, GraphSet::Build(plan, CapacityOf(plan, max_tokens), device.get()));
  PrefillParts parts;
  parts.plan = &plan;
  parts.graphs = &graphs;
  parts.device = device.get();
  ES_ASSIGN_OR_RETURN(const auto prefill, Prefill::Create(parts, max_tokens));
  for (const MemoryLedger::Entry& e : ledger.Entries()) uses.push_back({e.name, e.bytes});
  return uses;
}

uint64_t Sum(const std::vector<MemoryUse>& uses) {
  uint64_t sum = 0;
  for (const MemoryUse& use : uses) sum += use.bytes;
  return sum;
}

std::string InMiB(uint64_t bytes) {
  constexpr uint64_t kMiB = 1 << 20;
  return fmt::format("{} MiB", (bytes + kMiB - 1) / kMiB);
}

// The refusal: what would do, and what takes it.
Status OverBudget(const ModelFile& model, const ShapePlan& plan, uint64_t expert_bytes, const char* experts) {
  std::vector<MemoryUse> uses = plan.memory;
  uses.push_back({experts, expert_bytes});
  std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string parts;
  for (size_t i = 0; i < std::min<size_t>(3, uses.size()); ++i) {
    parts += fmt::format("{}{} {}", i == 0 ? "" : ", ", uses[i].name, InMiB(uses[i].bytes));
  }
  return Status::OverBudget(fmt::format("{:.100}: needs at least {} ({}), --memory is {}", ShownPath(model.info().path),
                                        InMiB(Sum(uses)), parts, InMiB(plan.budget_bytes)));
}

void TakeBudget(const EngineOptions& options, ShapePlan* plan) {
  if (options.memory_bytes != 0) {
    plan->budget_bytes = options.memory_bytes;
    plan->budget_source = "--memory";
  } else if (const auto budget = ChooseDefaultBudget(); budget) {
    plan->budget_bytes = budget->bytes;
    plan->budget_source = budget->source;
  }
}

// Without a profile: 2, 6, 2, with fewer experts a read, then fewer banks, until it fits.
StreamShape ShrunkToFit(Schedule schedule, const StreamShape& asked, StreamShape shape, const StreamedModel& model,
                        uint64_t arena_bytes) {
  const StreamShape least = SmallestShape(schedule, asked);
  while (ArenaBytes(model, shape) > arena_bytes && asked.group_size == 0 && shape.group_size > 1) --shape.group_size;
  while (ArenaBytes(model, shape) > arena_bytes && shape.bank_count > least.bank_count) --shape.bank_count;
  shape.queue_depth = std::min(shape.queue_depth, shape.bank_count);
  return shape;
}

// The arena of what is left of the budget.
Status ChooseArena(const ModelFile& model, const EngineOptions& options, const std::vector<uint32_t>& lengths,
                   ShapePlan* plan) {
  const ExpertOptions& experts = options.experts;
  const StreamShape asked = {experts.group_size, experts.bank_count, experts.queue_depth};
  const StreamedModel streamed = StreamedModelOf(model.plan());
  ES_ASSIGN_OR_RETURN(plan->shape, ResolveShape(plan->schedule, asked, streamed.experts, streamed.layers.size()));
  const uint64_t others = Sum(plan->memory);
  TunerOptions tuner;
  tuner.schedule = plan->schedule;
  tuner.fixed = asked;
  if (plan->budget_bytes != 0) tuner.arena_bytes = plan->budget_bytes - std::min(plan->budget_bytes, others);
  const bool limited = options.memory_bytes != 0;
  if (!limited) tuner.tolerance = kDefaultTolerance;

  if (!HasOwnShape(plan->schedule)) {
    if (options.profile != nullptr) {
      plan->choice = ChooseShape(options.profile->times, streamed, WorkloadOf(lengths), tuner);
    }
    if (plan->choice) {
      plan->shape = plan->choice->best.shape;
    } else if (limited) {
      plan->shape = ShrunkToFit(plan->schedule, asked, plan->shape, streamed, tuner.arena_bytes);
    }
  }
  ES_RETURN_IF_ERROR(CheckShape(plan->schedule, plan->shape, streamed.experts));
  const uint64_t arena = ArenaBytes(streamed, plan->shape);
  if (limited && others + arena > options.memory_bytes) return OverBudget(model, *plan, arena, kArenaName);
  plan->memory.push_back({kArenaName, arena});
  return Status::Ok();
}

}  // namespace

uint64_t ShapePlan::memory_bytes() const { return Sum(memory); }

PredictedPass PredictPass(const ServiceProfile& times, const StreamedModel& model, uint32_t tokens, Schedule schedule,
                          const StreamShape& shape) {
  const ModelOutcome o = PredictRequest(times, model, tokens, schedule, shape);
  const auto seconds = [](uint64_t ns) { return static_cast<double>(ns) * 1e-9; };
  return {tokens, seconds(o.total_ns), seconds(o.exec_ns), seconds(o.io_ns), seconds(o.stall_ns), o.bubble_rate()};
}

std::vector<WorkloadLength> WorkloadOf(const std::vector<uint32_t>& lengths) {
  std::map<uint32_t, double> shares;
  for (const uint32_t tokens : lengths) shares[tokens] += 1;
  std::vector<WorkloadLength> workload;
  for (const auto& [tokens, share] : shares) workload.push_back({tokens, share});
  return workload;
}

Result<ShapePlan> PlanShape(const ModelFile& model, const EngineOptions& options, uint32_t max_tokens,
                            const std::vector<uint32_t>& lengths) {
  ShapePlan plan;
  ES_ASSIGN_OR_RETURN(plan.schedule, ScheduleOf(model, options.experts));
  TakeBudget(options, &plan);
  ES_ASSIGN_OR_RETURN(plan.memory, MemoryBesideExperts(model, options, max_tokens));
  if (plan.schedule != Schedule::kResident) {
    ES_RETURN_IF_ERROR(ChooseArena(model, options, lengths, &plan));
  } else {
    const uint64_t experts = model.plan().expert_stride * model.plan().experts * model.plan().sparse_layers.size();
    if (options.memory_bytes != 0 && plan.memory_bytes() + experts > options.memory_bytes) {
      return OverBudget(model, plan, experts, "experts");
    }
    plan.memory.push_back({"experts", experts});
  }
  std::stable_sort(plan.memory.begin(), plan.memory.end(),
                   [](const MemoryUse& a, const MemoryUse& b) { return a.bytes > b.bytes; });
  return plan;
}

}  // namespace estream
