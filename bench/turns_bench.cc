// SPDX-License-Identifier: Apache-2.0
// Ways of bringing experts against each other, in turns: every prompt on an engine of each way. The engines are opened
// anew every round, so that what differs from one opening to the next falls on all ways alike.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/macros.h"
#include "bench/measure.h"
#include "bench/prompt_ids.h"
#include "bench/report.h"
#include "estream/engine.h"
#include "estream/model.h"

namespace estream {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> ways = {"resident", "stream"};
  std::vector<uint32_t> lengths = {1024, 4096};
  uint32_t group = 0, banks = 0, depth = 0;
  uint32_t rounds = 5;
  uint32_t repeats = 3;
  bool json = false;
};

// What the passes of one way and length took, in the order of their prompts.
struct Samples {
  std::vector<double> seconds, waited, read_mb, wasted_mb, bubbles;
};

// A way is a schedule, or `stream` with early reads as in the previous request, or without sparse reads.
Result<std::unique_ptr<Engine>> OpenEngine(const std::shared_ptr<const Model>& model, const Options& options,
                                           const std::string& way) {
  EngineOptions engine;
  engine.max_tokens = *std::max_element(options.lengths.begin(), options.lengths.end());
  engine.experts.schedule = way;
  if (way == "previous" || way == "whole-groups") engine.experts.schedule = "stream";
  if (way == "previous") engine.experts.early_order = "previous";
  if (way == "whole-groups") engine.experts.sparse_reads = false;
  if (engine.experts.schedule != "resident") {
    engine.experts.group_size = options.group;
    engine.experts.bank_count = options.banks;
    engine.experts.queue_depth = options.depth;
  }
  return Engine::Open(model, engine);
}

class Turns {
 public:
  Turns(const Options& options, std::shared_ptr<const Model> model)
      : options_(options),
        model_(std::move(model)),
        samples_(options.lengths.size(), std::vector<Samples>(options.ways.size())) {}

  Status Run() {
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      ES_RETURN_IF_ERROR(MeasureRound());
      fmt::print(stderr, "{} of {} rounds\n", round + 1, options_.rounds);
    }
    return Status::Ok();
  }

  // One table a length; ratios are to the first way.
  void Fill(Report* report) const {
    for (size_t l = 0; l < options_.lengths.size(); ++l) {
      ReportTable table{fmt::format("{} tokens: s to first logits, ratios to {}; medians but for least",
                                    options_.lengths[l], options_.ways[0]),
                        "way",
                        {"s", "least", "of s", "of least", "of pairs", "quarter", "3 quarters", "waited s", "bubbles %",
                         "read MB", "wasted MB"},
                        {}};
      for (size_t w = 0; w < options_.ways.size(); ++w) table.rows.push_back(Row(l, w));
      report->tables.push_back(std::move(table));
    }
  }

 private:
  Status MeasureRound() {
    std::vector<std::unique_ptr<Engine>> engines;
    for (const std::string& way : options_.ways) {
      ES_ASSIGN_OR_RETURN(auto engine, OpenEngine(model_, options_, way));
      engines.push_back(std::move(engine));
      ES_RETURN_IF_ERROR(Pass(engines.back().get(), std::min(64u, options_.lengths[0])).status());  // unmeasured
    }
    for (size_t l = 0; l < options_.lengths.size(); ++l) {
      for (uint32_t i = 0; i < options_.repeats; ++i) {
        ++seed_;
        for (size_t w = 0; w < engines.size(); ++w) {
          ES_ASSIGN_OR_RETURN(const PrefillReport pass, Pass(engines[w].get(), options_.lengths[l]));
          Samples& s = samples_[l][w];
          s.seconds.push_back(pass.ttft_s);
          s.waited.push_back(pass.stall_s);
          s.bubbles.push_back(100 * pass.bubble_rate());
          s.read_mb.push_back(1e-6 * static_cast<double>(pass.read_bytes));
          s.wasted_mb.push_back(1e-6 * static_cast<double>(pass.wasted_bytes));
        }
      }
    }
    return Status::Ok();
  }

  Result<PrefillReport> Pass(Engine* engine, uint32_t tokens) const {
    const std::vector<int32_t> ids = PromptIds(tokens, model_->info().vocabulary, seed_);
    return engine->Prefill({.tokens = ids, .rows = {}}, [](uint32_t, std::span<const float>) { return Status::Ok(); });
  }

  ReportTable::Row Row(size_t l, size_t w) const {
    const Samples& base = samples_[l][0];
    const Samples& s = samples_[l][w];
    std::vector<double> pairs;
    for (size_t i = 0; i < s.seconds.size(); ++i) pairs.push_back(s.seconds[i] / base.seconds[i]);
    std::sort(pairs.begin(), pairs.end());
    const auto least = [](const Samples& x) { return *std::min_element(x.seconds.begin(), x.seconds.end()); };
    return {options_.ways[w],
            {Median(s.seconds), least(s), Median(s.seconds) / Median(base.seconds), least(s) / least(base),
             Median(pairs), pairs[pairs.size() / 4], pairs[3 * pairs.size() / 4], Median(s.waited), Median(s.bubbles),
             Median(s.read_mb), Median(s.wasted_mb)}};
  }

  const Options options_;
  const std::shared_ptr<const Model> model_;
  std::vector<std::vector<Samples>> samples_;  // by length, by way
  uint32_t seed_ = 1;                          // of the prompt
};

Status Run(const Options& options) {
  ES_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, Model::Open(options.model));
  Turns turns(options, model);
  ES_RETURN_IF_ERROR(turns.Run());
  Report report;
  report.facts.emplace_back("model", fmt::format("{}, {}", model->info().name, model->info().path));
  report.facts.emplace_back("samples", fmt::format("{} rounds of {} prompts", options.rounds, options.repeats));
  turns.Fill(&report);
  PrintReport(report, options.json);
  return Status::Ok();
}

}  // namespace
}  // namespace estream

int main(int argc, char** argv) {
  estream::Options options;
  CLI::App app{"Time to first logits with experts brought in different ways, in turns."};
  const CLI::Range count(1, 1 << 20);
  app.add_option("MODEL", options.model, "A pack")->required();
  app.add_option("--ways", options.ways, "Schedules, and of stream: previous (its early order), whole-groups")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--lengths", options.lengths, "Tokens a prompt")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(count)
      ->capture_default_str();
  app.add_option("--group", options.group, "G, where experts stream")->check(count);
  app.add_option("--banks", options.banks, "B")->check(count);
  app.add_option("--queue-depth", options.depth, "Q")->check(count);
  app.add_option("--rounds", options.rounds, "Engines opened anew so often")->check(count)->capture_default_str();
  app.add_option("--repeats", options.repeats, "Prompts a round")->check(count)->capture_default_str();
  app.add_flag("--json", options.json, "Print JSON instead of tables");
  CLI11_PARSE(app, argc, argv);
  return estream::ExitCode("turns_bench", estream::Run(options));
}
