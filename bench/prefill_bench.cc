// SPDX-License-Identifier: Apache-2.0
// Time to first logits by prompt length, schedule and kind of activations, and which operators it goes to.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
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
  std::vector<uint32_t> lengths = {64, 256, 1024, 4096};
  std::vector<std::string> schedules = {"resident", "stream"};
  std::vector<std::string> activations = {"q8", "f32"};
  uint32_t threads = 0;
  uint32_t repeats = 5;
  bool json = false;
};

// Seconds by "track/name" of everything an engine traced so far.
std::map<std::string, double> TracedSeconds(const Engine& engine) {
  std::map<std::string, double> seconds;
  const nlohmann::json trace = nlohmann::json::parse(engine.TraceJson());
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::string track = event.at("cat"), name = event.at("name");
    seconds[track == "wait" ? track : track + '/' + name] += 1e-6 * event.at("dur").get<double>();
  }
  return seconds;
}

// Columns of the table of operators. Mixers are traced whole and in parts; what no part covers is norms and rotation
// (and, where there are any, short convolutions and the keys of split latent attention).
constexpr const char* kOperators[] = {"attention", "projections", "norms, rope", "router", "experts",
                                      "other FFN", "head",        "waiting",     "other"};

// The share of each in `total` seconds, in %.
std::vector<double> Shares(std::map<std::string, double> seconds, double total) {
  const double attention = seconds["device/attention"], products = seconds["device/product"];
  std::vector<double> parts = {attention,
                               products,
                               seconds["compute/mixer"] - attention - products + seconds["compute/norm"],
                               seconds["compute/router"],
                               seconds["compute/experts"],
                               seconds["compute/dense ffn"] + seconds["compute/shared experts"],
                               seconds["compute/head"],
                               seconds["wait"]};
  double other = total;
  for (const double part : parts) other -= part;
  parts.push_back(other);
  for (double& part : parts) part *= 100 / total;
  return parts;
}

// Runs prompts of one length, the first of them unmeasured, and adds a row to each table.
Status MeasureLength(const Options& options, uint32_t length, Engine* engine, ReportTable* times, ReportTable* shares) {
  const std::vector<int32_t> ids = PromptIds(length, engine->model().info().vocabulary);
  const auto ignore = [](uint32_t, std::span<const float>) { return Status::Ok(); };
  ES_RETURN_IF_ERROR(engine->Prefill({.tokens = ids, .rows = {}}, ignore).status());
  std::map<std::string, double> before = TracedSeconds(*engine);
  std::vector<double> ttft;
  double total = 0;
  for (uint32_t i = 0; i < options.repeats; ++i) {
    ES_ASSIGN_OR_RETURN(const PrefillReport report, engine->Prefill({.tokens = ids, .rows = {}}, ignore));
    ttft.push_back(1e3 * report.ttft_s);
    total += report.total_s;
  }
  std::map<std::string, double> traced = TracedSeconds(*engine);
  for (auto& [name, seconds] : traced) seconds -= before[name];
  const auto [least, most] = std::minmax_element(ttft.begin(), ttft.end());
  const double median = Median(ttft);
  times->rows.push_back({fmt::format("{}", length), {median, *least, *most, 1e3 * length / median}});
  shares->rows.push_back({fmt::format("{}", length), Shares(std::move(traced), total)});
  return Status::Ok();
}

Status Measure(const Options& options, const std::shared_ptr<const Model>& model, const std::string& schedule,
               const std::string& activations, Report* report) {
  EngineOptions engine_options;
  engine_options.activations = activations;
  engine_options.threads = options.threads;
  engine_options.max_tokens = *std::max_element(options.lengths.begin(), options.lengths.end());
  engine_options.experts.schedule = schedule;
  engine_options.trace = true;
  ES_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(model, engine_options));
  const std::string title = fmt::format("{}, {} activations", engine->expert_description(), activations);
  ReportTable times{
      fmt::format("Time to first logits, ms: {}", title), "tokens", {"median", "least", "most", "tokens/s"}, {}};
  ReportTable shares{
      fmt::format("Its operators, %: {}", title), "tokens", {std::begin(kOperators), std::end(kOperators)}, {}};
  for (const uint32_t length : options.lengths) {
    ES_RETURN_IF_ERROR(MeasureLength(options, length, engine.get(), &times, &shares));
  }
  if (report->facts.empty()) {
    report->facts.emplace_back("model", fmt::format("{}, {}", model->info().name, model->info().path));
    report->facts.emplace_back("device", engine->device_description());
    report->facts.emplace_back("samples", fmt::format("{} after one unmeasured", options.repeats));
  }
  report->tables.push_back(std::move(times));
  report->tables.push_back(std::move(shares));
  return Status::Ok();
}

Status Run(const Options& options) {
  ES_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, Model::Open(options.model));
  Report report;
  for (const std::string& schedule : options.schedules) {
    for (const std::string& activations : options.activations) {
      ES_RETURN_IF_ERROR(Measure(options, model, schedule, activations, &report));
    }
  }
  PrintReport(report, options.json);
  return Status::Ok();
}

}  // namespace
}  // namespace estream

int main(int argc, char** argv) {
  estream::Options options;
  CLI::App app("Time to first logits, and which operators it goes to");
  app.add_option("MODEL", options.model, "A pack, or a plain model file with --schedule resident")->required();
  app.add_option("--lengths", options.lengths, "Tokens a prompt")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--schedule", options.schedules, "How experts are brought, as estream run knows it")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--activations", options.activations, "q8, f32")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("-t,--threads", options.threads, "Threads; default: all")->check(CLI::Range(1, 1024));
  app.add_option("--repeats", options.repeats, "Measured runs of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print JSON instead of tables");
  CLI11_PARSE(app, argc, argv);
  return estream::ExitCode("prefill_bench", estream::Run(options));
}
