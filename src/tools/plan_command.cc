// SPDX-License-Identifier: Apache-2.0
// `estream plan`: what a run would need and take, and why its shape was chosen.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/macros.h"
#include "estream/pack_cache.h"
#include "estream/tune.h"
#include "format/quote.h"
#include "text/utf8.h"
#include "tools/command_line.h"
#include "tools/model_flags.h"
#include "tools/prompt_lengths.h"
#include "tools/report.h"
#include "tools/run_profile.h"
#include "tools/terminal.h"
#include "tools/verb.h"

namespace estream {
namespace {

struct PlanFlags {
  ModelFlags model;
  std::string tokens;
  std::vector<uint32_t> lengths;
  std::string device_profile;
  bool tokens_given = false;
  bool json = false;
};

// A plan by one profile, or by none.
struct Plan {
  std::shared_ptr<const TuningProfile> profile;
  PlanReport report;
};

const char* LimitOf(const PredictedPass& pass) { return pass.io_s > pass.compute_s ? "storage" : "device"; }

Json PlanJson(const Plan& plan) {
  const PlanReport& report = plan.report;
  Json passes = Json::array(), alternatives = Json::array();
  for (const PredictedPass& p : report.passes) {
    Json row = PassJson(p);
    row["limit"] = LimitOf(p);
    passes.push_back(std::move(row));
  }
  for (const auto& a : report.alternatives) {
    Json row = ShapeJson(a.shape);
    row["mean_s"] = a.mean_s;
    alternatives.push_back(std::move(row));
  }
  Json json = {{"profile", plan.profile != nullptr ? Json(ToValidUtf8(ProfileName(*plan.profile))) : Json()},
               {"schedule", report.schedule},
               {"shape", report.chosen.group_size != 0 ? ShapeJson(report.chosen) : Json()},
               {"memory_bytes", report.memory_bytes},
               {"budget_bytes", report.budget_bytes},
               {"budget_source", report.budget_source},
               {"memory", MemoryJson(report.memory)},
               {"passes", passes},
               {"alternatives", alternatives}};
  return json;
}

std::string ShapeText(const ExpertShape& shape) {
  return fmt::format("G={} B={} Q={}", shape.group_size, shape.bank_count, shape.queue_depth);
}

void PrintPasses(const PlanReport& report) {
  Write("  tokens  first logits  computing    reading    waiting   bubbles  limit\n");
  for (const PredictedPass& p : report.passes) {
    Write(fmt::format("{:>8}  {:>12} {:>10} {:>10} {:>10}  {}  {}\n", p.tokens, FormatSeconds(p.ttft_s),
                      FormatSeconds(p.compute_s), FormatSeconds(p.io_s), FormatSeconds(p.stall_s),
                      FormatPercent(p.bubble_rate), LimitOf(p)));
  }
}

// Why this one: the best of every group size beside it.
void PrintAlternatives(const PlanReport& report) {
  double best = 0;
  for (const auto& a : report.alternatives) best = best == 0 ? a.mean_s : std::min(best, a.mean_s);
  Write("the best of each group size, mean of these lengths:\n");
  for (const auto& a : report.alternatives) {
    const bool chosen = a.shape.group_size == report.chosen.group_size;
    Write(fmt::format("  {:<16} arena {:>10}  {:>8}  {:+6.1f} %{}\n", ShapeText(a.shape),
                      FormatBytes(a.shape.arena_bytes), FormatSeconds(a.mean_s), 100 * (a.mean_s / best - 1),
                      chosen ? "  chosen" : ""));
  }
}

void PrintForPeople(const Plan& plan) {
  const PlanReport& report = plan.report;
  if (plan.profile != nullptr) {
    Write(fmt::format("{}: {}\n", OneLine(ProfileName(*plan.profile)), OneLine(ProfileNote(*plan.profile))));
  }
  Write(report.chosen.group_size == 0 ? report.schedule + "\n"
                                      : fmt::format("{}, {}\n", report.schedule, ShapeText(report.chosen)));
  if (!report.passes.empty()) PrintPasses(report);
  if (report.alternatives.size() > 1) PrintAlternatives(report);
  Write(fmt::format("memory {}", FormatBytes(report.memory_bytes)));
  if (report.budget_bytes != 0) {
    Write(fmt::format(" of {} ({})", FormatBytes(report.budget_bytes), report.budget_source));
  }
  Write("\n");
  for (const MemoryUse& use : report.memory) {
    Write(fmt::format("{:>14}  {}\n", FormatBytes(use.bytes), use.name));
  }
}

Outcome Check(PlanFlags& flags, Positionals positionals) {
  ES_RETURN_IF_NOT_OK(CheckModelFlags(&flags.model, &positionals));
  if (!positionals.empty()) return Outcome::Usage(fmt::format("unexpected argument {}", Quoted(positionals[0])));
  flags.tokens_given = !flags.tokens.empty();
  const auto lengths = ParseLengths(flags.tokens_given ? flags.tokens : "64,256,1024,4096");
  if (!lengths) {
    return Outcome::Usage(fmt::format("--tokens: expected lengths like 64,1024, found {}", Quoted(flags.tokens)));
  }
  flags.lengths = *lengths;
  return Outcome::Ok();
}

// The profiles to plan by, one plan each; a null one when there is none.
Outcome FindProfiles(const PlanFlags& flags, const Model& model, const EngineOptions& options,
                     std::vector<std::shared_ptr<const TuningProfile>>* profiles) {
  if (!flags.device_profile.empty()) {
    ES_ASSIGN_OR_RETURN(*profiles, LoadProfilesOf(model, flags.device_profile));
    return Outcome::Ok();
  }
  EngineOptions found = options;
  ES_RETURN_IF_NOT_OK(TakeProfile(model, &found));
  if (found.profile == nullptr)
    PrintNotice("no profile of this machine: estream tune measures one, and times are shown");
  profiles->push_back(found.profile);
  return Outcome::Ok();
}

Outcome RunPlan(const PlanFlags& flags) {
  const std::string pack = ExistingPack(flags.model.model);
  ES_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model,
                      Model::Open(pack.empty() ? flags.model.model : pack, {}));
  std::vector<uint32_t> lengths = flags.lengths;
  if (!flags.tokens_given) {  // of the default ones those that the model can take
    std::erase_if(lengths, [&](uint32_t tokens) { return tokens > model->info().context; });
    if (lengths.empty()) lengths.push_back(model->info().context);
  }
  EngineOptions options = OptionsOf(flags.model);
  if (options.experts.schedule.empty()) options.experts.schedule = "stream";  // a model would be packed first
  std::vector<std::shared_ptr<const TuningProfile>> profiles;
  ES_RETURN_IF_NOT_OK(FindProfiles(flags, *model, options, &profiles));
  Json list = Json::array();
  for (const auto& profile : profiles) {
    Plan plan;
    plan.profile = options.profile = profile;
    Result<PlanReport> report = PlanModel(model, options, lengths);
    if (!report.ok()) return Outcome::FromFlags(report.status());
    plan.report = std::move(*report);
    if (flags.json) {
      list.push_back(PlanJson(plan));
    } else {
      PrintForPeople(plan);
    }
  }
  if (flags.json) Write(JsonLine({{"model", ToValidUtf8(flags.model.model)}, {"plans", list}}));
  return Outcome::Ok();
}

}  // namespace

Verb AddPlanCommand(CLI::App& root) {
  CLI::App& app =
      *root.add_subcommand("plan", "Say how experts would stream, what memory and time a prompt would take");
  auto flags = std::make_shared<PlanFlags>();
  DescribePositional(app, "MODEL", false, "A pack or a model, when -m does not name it; nothing is packed or loaded");
  AddDeviceFlags(app, &flags->model);
  AddStreamFlags(app, &flags->model);
  app.add_option("--tokens", flags->tokens, "Prompt lengths; default: 64,256,1024,4096")->type_name("N,N,...");
  app.add_option(
         "--device-profile", flags->device_profile,
         "Plan for the machine of this profile instead of this one; each of its profiles of such a model gives a "
         "plan")
      ->type_name("FILE");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.footer(
      "Examples:\n"
      "  estream plan olmoe.estream.gguf --memory 900M\n"
      "  estream plan olmoe.gguf --tokens 1024 --schedule per-layer --json");
  return {&app, [flags](Positionals p) { return Check(*flags, std::move(p)); }, [flags] { return RunPlan(*flags); }};
}

}  // namespace estream
