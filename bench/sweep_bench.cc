// SPDX-License-Identifier: Apache-2.0
// Every shape (G, B, Q) measured end to end, against the one that the tuner chooses from its profile: how much time the
// choice loses in a budget, and how much time it saves to choose.                                     (§3.4, Fig. 10)
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
#include "estream/tune.h"

namespace estream {
namespace {

struct Options {
  std::string model;
  uint32_t tokens = 1024;
  uint32_t repeats = 5;
  uint32_t confirm = 10;
  std::vector<uint32_t> groups = {1, 2, 4, 8, 16, 32, 64};
  std::vector<uint32_t> banks = {2, 3, 4, 8};
  std::vector<uint32_t> depths = {1, 2, 4, 8};
  std::vector<double> budgets_mib;
  bool json = false;
};

// One shape, what it needs in memory and what its passes took.
struct Point {
  ExpertShape shape;
  double memory_mib = 0;  // of everything the engine holds
  std::vector<double> seconds;
  std::vector<double> again;  // when measured anew
  double predicted_s = 0;

  std::string name() const {
    return fmt::format("G={} B={} Q={}", shape.group_size, shape.bank_count, shape.queue_depth);
  }
};

// Half the distance between the first and the third quarter.
double Spread(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return (samples[3 * samples.size() / 4] - samples[samples.size() / 4]) / 2;
}

EngineOptions WithShape(EngineOptions options, const ExpertShape& shape) {
  options.experts.group_size = shape.group_size;
  options.experts.bank_count = shape.bank_count;
  options.experts.queue_depth = shape.queue_depth;
  return options;
}

bool SameShape(const ExpertShape& a, const ExpertShape& b) {
  return a.group_size == b.group_size && a.bank_count == b.bank_count && a.queue_depth == b.queue_depth;
}

class Sweep {
 public:
  Sweep(const Options& options, std::shared_ptr<const Model> model) : options_(options), model_(std::move(model)) {}

  Status Run(Report* report) {
    base_.max_tokens = options_.tokens;
    ES_RETURN_IF_ERROR(TakeProfile());
    ES_RETURN_IF_ERROR(Choose());
    ES_RETURN_IF_ERROR(AddGrid());
    ES_RETURN_IF_ERROR(MeasureAll());
    ES_RETURN_IF_ERROR(Confirm());
    Fill(report);
    return Status::Ok();
  }

 private:
  Status TakeProfile() {
    TuneOptions tune;
    tune.lengths = {options_.tokens};  // as the sweep
    ES_ASSIGN_OR_RETURN(const TuneReport tuned, TuneModel(model_, base_, tune));
    tune_seconds_ = tuned.seconds;
    std::string note;
    ES_ASSIGN_OR_RETURN(base_.profile, LoadProfile(*model_, base_, &note));
    if (base_.profile == nullptr) return Status::Internal("the profile just written does not fit: " + note);
    return Status::Ok();
  }

  // The tuner's shape for each budget; they are measured like all others.
  Status Choose() {
    for (const double budget : options_.budgets_mib) {
      EngineOptions options = base_;
      options.memory_bytes = static_cast<uint64_t>(budget * 1048576);
      ES_ASSIGN_OR_RETURN(const PlanReport plan, PlanModel(model_, options, {options_.tokens}));
      ES_ASSIGN_OR_RETURN(const Point* point, Add(plan.chosen));
      chosen_.push_back(point->shape);
    }
    return Status::Ok();
  }

  Status AddGrid() {
    const double most = *std::max_element(options_.budgets_mib.begin(), options_.budgets_mib.end());
    for (const uint32_t group : options_.groups) {
      if (group > model_->info().experts) continue;
      for (const uint32_t banks : options_.banks) {
        for (const uint32_t depth : options_.depths) {
          if (depth > banks) continue;
          ES_ASSIGN_OR_RETURN(const Point* point, Add({group, banks, depth, 0}));
          if (point->memory_mib > most && point == &points_.back()) points_.pop_back();
        }
      }
    }
    return Status::Ok();
  }

  // The point of `shape`, new or known.
  Result<const Point*> Add(const ExpertShape& shape) {
    for (const Point& p : points_) {
      if (SameShape(p.shape, shape)) return &p;
    }
    ES_ASSIGN_OR_RETURN(const PlanReport plan, PlanModel(model_, WithShape(base_, shape), {options_.tokens}));
    points_.push_back({shape, static_cast<double>(plan.memory_bytes) / 1048576, {}, {}, plan.passes.at(0).ttft_s});
    return &points_.back();
  }

  Status MeasureAll() {
    std::vector<Point*> all;
    for (Point& point : points_) all.push_back(&point);
    const double start = Now(kWallClock);
    ES_RETURN_IF_ERROR(Measure(all, options_.repeats, &Point::seconds));
    sweep_seconds_ = (Now(kWallClock) - start) / options_.repeats;
    return Status::Ok();
  }

  // The shape that came out fastest of many did so by luck too. So it and the choice are measured anew, and only that
  // is compared.
  Status Confirm() {
    std::vector<Point*> few;
    const auto add = [&](const Point& point) {
      Point* p = &points_[static_cast<size_t>(&point - points_.data())];
      if (std::find(few.begin(), few.end(), p) == few.end()) few.push_back(p);
    };
    for (size_t i = 0; i < chosen_.size(); ++i) {
      add(Choice(i));
      add(Fastest(i));
    }
    return Measure(few, options_.confirm, &Point::again);
  }

  // Repeats outside, shapes inside: whatever else the machine does falls on all shapes alike.
  Status Measure(const std::vector<Point*>& points, uint32_t repeats, std::vector<double> Point::*times) {
    const std::vector<int32_t> ids = PromptIds(options_.tokens, model_->info().vocabulary);
    const double start = Now(kWallClock);
    for (uint32_t repeat = 0; repeat < repeats; ++repeat) {
      for (Point* point : points) {
        ES_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(model_, WithShape(base_, point->shape)));
        ES_ASSIGN_OR_RETURN(const PrefillReport pass,
                            engine->Prefill({.tokens = ids, .rows = {}},
                                            [](uint32_t, std::span<const float>) { return Status::Ok(); }));
        (point->*times).push_back(pass.ttft_s);
      }
      fmt::print(stderr, "{} of {} rounds of {} shapes, {:.0f} s\n", repeat + 1, repeats, points.size(),
                 Now(kWallClock) - start);
    }
    return Status::Ok();
  }

  const Point& Choice(size_t i) const {
    return *std::ranges::find_if(points_, [&](const Point& p) { return SameShape(p.shape, chosen_[i]); });
  }
  const Point& Fastest(size_t i) const {
    return Best(options_.budgets_mib[i], [](const Point& p) { return Median(p.seconds); });
  }

  // The fastest point that fits `budget`, by `time`.
  template <class Time>
  const Point& Best(double budget, const Time& time) const {
    const Point* best = nullptr;
    for (const Point& p : points_) {
      if (p.memory_mib <= budget && (best == nullptr || time(p) < time(*best))) best = &p;
    }
    ES_CHECK(best != nullptr);  // the choice for this budget is among them
    return *best;
  }

  void Fill(Report* report) const {
    report->facts.emplace_back("tuning", fmt::format("{:.1f} s", tune_seconds_));
    report->facts.emplace_back("one sweep", fmt::format("{:.1f} s, {} shapes, {:.1f} times the tuning", sweep_seconds_,
                                                        points_.size(), sweep_seconds_ / tune_seconds_));
    ReportTable regret{
        fmt::format(
            "The tuner's choice against the fastest shape in a budget, both measured {} times anew; differences "
            "within the spread are 0",
            options_.confirm),
        "budget, MiB: choice / fastest",
        {"choice s", "fastest s", "spread s", "difference %", "regret %", "by the model %"},
        {}};
    for (size_t i = 0; i < chosen_.size(); ++i) {
      const Point &choice = Choice(i), &fastest = Fastest(i);
      const Point& foretold = Best(options_.budgets_mib[i], [](const Point& p) { return p.predicted_s; });
      const double ours = Median(choice.again), least = Median(fastest.again);
      const double spread = std::max(Spread(choice.again), Spread(fastest.again));
      const double lost = 100 * (ours / least - 1);
      regret.rows.push_back({fmt::format("{:.0f}: {} / {}", options_.budgets_mib[i], choice.name(), fastest.name()),
                             {ours, least, spread, lost, ours - least <= spread ? 0 : lost,
                              100 * (choice.predicted_s / foretold.predicted_s - 1)}});
    }
    report->tables.push_back(std::move(regret));
    ReportTable all{"All shapes", "shape", {"memory MiB", "median s", "least", "most", "model s"}, {}};
    for (const Point& p : points_) {
      const auto [least, most] = std::minmax_element(p.seconds.begin(), p.seconds.end());
      all.rows.push_back({p.name(), {p.memory_mib, Median(p.seconds), *least, *most, p.predicted_s}});
    }
    report->tables.push_back(std::move(all));
  }

  const Options options_;
  const std::shared_ptr<const Model> model_;
  EngineOptions base_;
  std::vector<Point> points_;
  std::vector<ExpertShape> chosen_;  // by budget
  double tune_seconds_ = 0;
  double sweep_seconds_ = 0;  // of one round
};

Status Run(const Options& options) {
  ES_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, Model::Open(options.model));
  Report report;
  report.facts.emplace_back(
      "model", fmt::format("{}, {} tokens, {} repeats in turns", options.model, options.tokens, options.repeats));
  ES_RETURN_IF_ERROR(Sweep(options, model).Run(&report));
  PrintReport(report, options.json);
  return Status::Ok();
}

}  // namespace
}  // namespace estream

int main(int argc, char** argv) {
  estream::Options options;
  CLI::App app{"Measures every shape (G, B, Q) of a pack end to end against the tuner's choice."};
  app.add_option("model", options.model, "a pack")->required();
  app.add_option("--budgets", options.budgets_mib, "memory budgets in MiB")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--tokens", options.tokens, "length of the prompt")->capture_default_str();
  app.add_option("--repeats", options.repeats, "passes of each shape")->capture_default_str();
  app.add_option("--confirm", options.confirm, "passes of the choices and of the fastest, measured anew")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--groups", options.groups, "G, experts a read")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--banks", options.banks, "B, banks")->delimiter(',')->allow_extra_args(false)->capture_default_str();
  app.add_option("--depths", options.depths, "Q, reads in flight; at most B")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print JSON instead of tables");
  CLI11_PARSE(app, argc, argv);
  return estream::ExitCode("sweep_bench", estream::Run(options));
}
