// SPDX-License-Identifier: Apache-2.0
// Profiles of runs.
#include "tools/run_profile.h"

#include <fmt/format.h>

#include "base/macros.h"
#include "estream/tune.h"
#include "pipeline/schedule.h"
#include "tools/interrupt.h"
#include "tools/report.h"
#include "tools/share_progress.h"
#include "tools/terminal.h"

namespace estream {
namespace {

// Below this a pass reads its experts faster than a profile is measured.
constexpr uint64_t kWorthMeasuring = uint64_t{256} << 20;

// Whether a profile could change anything.
bool IsChosen(const ExpertOptions& experts) {
  const bool given = experts.group_size != 0 && experts.bank_count != 0 && experts.queue_depth != 0;
  const auto schedule = ParseSchedule(experts.schedule.empty() ? "stream" : experts.schedule);
  return !given && schedule.ok() && !HasOwnShape(*schedule);
}

Outcome MeasureQuickly(const std::shared_ptr<const Model>& model, const EngineOptions& options) {
  PrintNotice("no profile of this machine for this pack: measuring one, about 3 seconds (--no-tune: do not)");
  const InterruptFlag interrupt;
  ShareProgress bar;
  TuneOptions tune;
  tune.quick = true;
  tune.cancel = interrupt.flag();
  tune.progress = [&bar](const char* phase, double share) { bar.Update(phase, share); };
  const auto report = TuneModel(model, options, tune);
  if (report.status().code() == StatusCode::kCancelled) return report.status();
  if (!report.ok()) PrintNotice("going on without a profile: " + report.status().message());
  return Outcome::Ok();
}

}  // namespace

Outcome TakeProfile(const Model& model, EngineOptions* options) {
  std::string note;
  ES_ASSIGN_OR_RETURN(options->profile, LoadProfile(model, *options, &note));
  if (!note.empty()) PrintNotice(note);
  return Outcome::Ok();
}

Outcome FindProfileForRun(const ModelFlags& flags, const std::shared_ptr<const Model>& model, EngineOptions* options) {
  if (!IsChosen(flags.experts)) return Outcome::Ok();
  ES_RETURN_IF_NOT_OK(TakeProfile(*model, options));
  const bool measures =
      !flags.no_tune && flags.device == "cpu" && model->info().is_pack && model->info().file_bytes >= kWorthMeasuring;
  if (options->profile != nullptr || !measures) return Outcome::Ok();
  ES_RETURN_IF_NOT_OK(MeasureQuickly(model, *options));
  return TakeProfile(*model, options);
}

Outcome ShowPlan(const std::shared_ptr<const Model>& model, const EngineOptions& options) {
  const auto plan = PlanModel(model, options, {options.max_tokens});
  if (!plan.ok()) return Outcome::FromFlags(plan.status());
  if (plan->chosen.group_size == 0) {
    PrintNotice(fmt::format("{}, {} of memory", plan->schedule, FormatBytes(plan->memory_bytes)));
    return Outcome::Ok();
  }
  PrintNotice(fmt::format("{}, G={} B={} Q={} ({}), arena {}, {} of memory in all; budget {} ({})", plan->schedule,
                          plan->chosen.group_size, plan->chosen.bank_count, plan->chosen.queue_depth,
                          plan->alternatives.empty() ? "no choice was made" : "by profile",
                          FormatBytes(plan->chosen.arena_bytes), FormatBytes(plan->memory_bytes),
                          FormatBytes(plan->budget_bytes), plan->budget_source));
  for (const PredictedPass& pass : plan->passes) {
    PrintNotice(fmt::format("predicted: first logits of {} tokens after {}, bubble rate{}", pass.tokens,
                            FormatSeconds(pass.ttft_s), FormatPercent(pass.bubble_rate)));
  }
  return Outcome::Ok();
}

}  // namespace estream
