// SPDX-License-Identifier: Apache-2.0
// `estream tune`: measures this machine for a model, so that every later run streams as well as it can.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "base/macros.h"
#include "estream/tune.h"
#include "format/quote.h"
#include "text/utf8.h"
#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/model_flags.h"
#include "tools/prompt_lengths.h"
#include "tools/report.h"
#include "tools/share_progress.h"
#include "tools/terminal.h"
#include "tools/verb.h"

namespace estream {
namespace {

// A prediction further from the truth than this, as a share of it, is worth a word.
constexpr double kMostAside = 0.3;

struct TuneFlags {
  ModelFlags model;
  std::string workload;
  bool quick = false;
  bool json = false;
};

void PrintJson(const TuneReport& report) {
  Json reads = Json::array(), calibrations = Json::array();
  for (const auto& r : report.reads) {
    reads.push_back({{"group", r.group_size}, {"queue_depth", r.queue_depth}, {"bytes_per_s", r.bytes_per_s}});
  }
  for (const auto& c : report.calibrations) {
    calibrations.push_back({{"tokens", c.tokens}, {"ttft_s", c.ttft_s}, {"exec_scale", c.exec_scale}});
  }
  Json line = {{"profile", ToValidUtf8(report.path)}, {"seconds", report.seconds}};
  line.update(ShapeJson(report.chosen));
  line["reads"] = reads;
  line["calibration"] = calibrations;
  if (report.predicted) {
    line["predicted"] = PassJson(*report.predicted);
    line["measured_ttft_s"] = report.measured_ttft_s;
    line["measured_bubble_rate"] = report.measured_bubble_rate;
  }
  Write(JsonLine(line));
}

// GB/s, a row a group size, a column a depth.
void PrintReads(const TuneReport& report) {
  std::set<uint32_t> depths;
  std::map<uint32_t, std::map<uint32_t, double>> table;
  for (const auto& r : report.reads) {
    depths.insert(r.queue_depth);
    table[r.group_size][r.queue_depth] = r.bytes_per_s;
  }
  std::string text = "reads, GB/s";
  for (const uint32_t depth : depths) text += fmt::format("{:>7}", fmt::format("Q={}", depth));
  text += "\n";
  for (const auto& [group, row] : table) {
    text += fmt::format("{:>11}", fmt::format("G={}", group));
    for (const uint32_t depth : depths) {
      text += row.contains(depth) ? fmt::format("{:7.2f}", row.at(depth) * 1e-9) : fmt::format("{:>7}", "");
    }
    text += "\n";
  }
  Write(text);
}

void PrintForPeople(const TuneReport& report) {
  PrintReads(report);
  for (const auto& c : report.calibrations) {
    Write(fmt::format("{:>6} tokens in {}; computing experts takes {:.2f} times as long while reading\n", c.tokens,
                      FormatSeconds(c.ttft_s), c.exec_scale));
  }
  if (report.skipped_lengths > 0) {
    Write(fmt::format("{} lengths beyond the model's context were left out\n", report.skipped_lengths));
  }
  Write(fmt::format("chosen: G={} B={} Q={}, arena {}\n", report.chosen.group_size, report.chosen.bank_count,
                    report.chosen.queue_depth, FormatBytes(report.chosen.arena_bytes)));
  if (report.predicted) {
    Write(fmt::format("{} tokens with it: predicted {}, bubble rate{}; measured {},{} ({:+.1f} %)\n",
                      report.predicted->tokens, FormatSeconds(report.predicted->ttft_s),
                      FormatPercent(report.predicted->bubble_rate), FormatSeconds(report.measured_ttft_s),
                      FormatPercent(report.measured_bubble_rate),
                      100 * (report.measured_ttft_s / report.predicted->ttft_s - 1)));
    if (std::abs(report.measured_ttft_s / report.predicted->ttft_s - 1) > kMostAside) {
      Write("that is far off: the machine was busy, or its storage slow for a while; tune again when it is idle\n");
    }
  }
  Write(fmt::format("{} written after {}\n", ShownPath(report.path), FormatSeconds(report.seconds)));
}

Outcome Check(TuneFlags& flags, Positionals positionals) {
  ES_RETURN_IF_NOT_OK(CheckModelFlags(&flags.model, &positionals));
  if (!positionals.empty()) return Outcome::Usage(fmt::format("unexpected argument {}", Quoted(positionals[0])));
  if (flags.quick && !flags.workload.empty()) return Outcome::Usage("--workload does not go with --quick");
  return Outcome::Ok();
}

Outcome Tune(const TuneFlags& flags) {
  TuneOptions options;
  options.quick = flags.quick;
  if (!flags.workload.empty()) {
    ES_ASSIGN_OR_RETURN(options.lengths, ReadLengths(flags.workload));
  }
  std::shared_ptr<const Model> model;
  ES_RETURN_IF_NOT_OK(OpenModel(flags.model, &model));
  Result<TuneReport> report = [&] {
    const InterruptFlag interrupt;
    ShareProgress bar;
    options.cancel = interrupt.flag();
    options.progress = [&bar](const char* phase, double share) { bar.Update(phase, share); };
    return TuneModel(model, OptionsOf(flags.model), options);
  }();
  if (!report.ok()) return Outcome::FromFlags(report.status());
  if (flags.json) {
    PrintJson(*report);
  } else {
    PrintForPeople(*report);
  }
  return Outcome::Ok();
}

}  // namespace

Verb AddTuneCommand(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("tune", "Measure this machine for a model, and choose how experts stream");
  auto flags = std::make_shared<TuneFlags>();
  DescribePositional(app, "MODEL", false, "A pack or a model, when -m does not name it");
  AddDeviceFlags(app, &flags->model);
  app.add_option("--workload", flags->workload,
                 "Prompt lengths to tune for, or a file of lengths, one a line; default: 16,64,256,1024,4096")
      ->type_name("16,64,...|FILE");
  app.add_flag("--quick", flags->quick, "Three seconds instead of a minute: what run does on first use");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.footer(
      "The profile is written beside the pack as NAME.profile.json, or into the cache folder where that cannot be\n"
      "written; run, classify and plan use it for any memory budget.\n"
      "Examples:\n"
      "  estream tune olmoe.estream.gguf\n"
      "  estream tune olmoe.gguf --workload lengths.txt");
  return {&app, [flags](Positionals p) { return Check(*flags, std::move(p)); }, [flags] { return Tune(*flags); }};
}

}  // namespace estream
