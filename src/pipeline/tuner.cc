// SPDX-License-Identifier: Apache-2.0
// The nested search of eq. 9 and 10.
#include "pipeline/tuner.h"

#include <algorithm>
#include <cmath>

namespace estream {
namespace {

// Layers of the search's requests: enough for the steady state between first and last, few enough for 5 ms.
constexpr uint32_t kSearchLayers = 20;

class Search {
 public:
  Search(const ServiceProfile& profile, const StreamedModel& model, std::span<const WorkloadLength> workload,
         const TunerOptions& options)
      : model_(model), workload_(workload), options_(options) {
    for (const WorkloadLength& w : workload) {
      makers_.emplace_back(profile, model, TimesAt(profile, w.tokens), kSearchLayers);
      weights_ += w.weight;
    }
    depth_ = options.fixed.queue_depth != 0 ? options.fixed.queue_depth : ChooseQueueDepth(profile);
  }

  std::optional<ShapeChoice> Run() {
    std::vector<Group> groups;
    double best = INFINITY;
    for (const uint32_t g : Groups()) {
      std::optional<Group> group = WithMostBanks(g);
      if (!group) continue;
      best = std::min(best, group->at_most);
      groups.push_back(std::move(*group));
    }
    if (groups.empty()) return std::nullopt;
    ShapeChoice choice;
    const double limit = best * (1 + options_.tolerance);
    for (Group& group : groups) {
      const ShapeCandidate found = FewestBanks(group, std::max(limit, group.at_most * (1 + options_.tolerance)));
      choice.by_group.push_back(found);
    }
    const ShapeCandidate* chosen = nullptr;
    for (const ShapeCandidate& c : choice.by_group) {
      if (static_cast<double>(c.mean_ns) > limit + 1) continue;
      if (chosen == nullptr || c.arena_bytes < chosen->arena_bytes) chosen = &c;
    }
    choice.best = *chosen;
    choice.evaluations = evaluations_;
    return choice;
  }

 private:
  struct Group {
    StreamShape least, most;
    double at_most = 0;
    std::vector<ModelRequest> requests;
  };

  std::vector<uint32_t> Groups() const {
    return options_.fixed.group_size != 0 ? std::vector<uint32_t>{options_.fixed.group_size}
                                          : GroupSizes(model_.experts);
  }

  double Evaluate(const Group& group, uint32_t banks) {
    StreamShape shape = group.least;
    shape.bank_count = banks;
    double sum = 0;
    for (size_t i = 0; i < workload_.size(); ++i) {
      sum += workload_[i].weight * static_cast<double>(Simulate(group.requests[i], options_.schedule, shape).total_ns);
      ++evaluations_;
    }
    return sum / weights_;
  }

  // The range of B for one G: Q0 to what fits, at most two layers, since reads of one layer ahead of another already
  // need no more; nothing when not even the least fits.                                                      (eq. 8)
  std::optional<Group> WithMostBanks(uint32_t g) {
    Group group;
    const uint32_t fixed = options_.fixed.bank_count;
    const uint32_t least = fixed != 0 ? fixed : std::max(depth_, MinBanks(options_.schedule));
    group.least = {g, least, std::min(depth_, least)};
    if (ArenaBytes(model_, group.least) > options_.arena_bytes) return std::nullopt;
    const uint64_t fits = options_.arena_bytes / std::max<uint64_t>(1, ArenaBytes(model_, {g, 1, 1}));
    const uint64_t two_layers = 2 * ((uint64_t{model_.experts} + g - 1) / g);
    group.most = group.least;
    if (fixed == 0)
      group.most.bank_count = static_cast<uint32_t>(std::max<uint64_t>(least, std::min(fits, two_layers)));
    for (const RequestMaker& maker : makers_)
      group.requests.push_back(maker.Make(options_.schedule, g, group.least.queue_depth));
    group.at_most = Evaluate(group, group.most.bank_count);
    return group;
  }

  ShapeCandidate FewestBanks(const Group& group, double limit) {
    uint32_t low = group.least.bank_count, high = low;
    double time = Evaluate(group, high);
    while (time > limit && high < group.most.bank_count) {
      low = high + 1;
      high = std::min(2 * high, group.most.bank_count);
      time = high == group.most.bank_count ? group.at_most : Evaluate(group, high);
    }
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      const double there = Evaluate(group, middle);
      if (there <= limit) {
        high = middle;
        time = there;
      } else {
        low = middle + 1;
      }
    }
    ShapeCandidate found;
    found.shape = {group.least.group_size, high, group.least.queue_depth};
    found.arena_bytes = ArenaBytes(model_, found.shape);
    found.mean_ns = static_cast<uint64_t>(time);
    return found;
  }

  const StreamedModel& model_;
  const std::span<const WorkloadLength> workload_;
  const TunerOptions& options_;
  std::vector<RequestMaker> makers_;  // by length
  double weights_ = 0;
  uint32_t depth_ = 0;
  uint32_t evaluations_ = 0;
};

}  // namespace

std::vector<uint32_t> GroupSizes(uint32_t experts) {
  std::vector<uint32_t> sizes;
  for (uint32_t g = 1; g <= 32 && g < experts; g *= 2) sizes.push_back(g);
  sizes.push_back(experts);
  return sizes;
}

uint64_t ArenaBytes(const StreamedModel& model, const StreamShape& shape) {
  return uint64_t{shape.bank_count} * (shape.group_size * model.slot_stride() + model.experts * sizeof(int32_t));
}

StreamShape SmallestShape(Schedule schedule, const StreamShape& fixed) {
  StreamShape shape;
  shape.group_size = std::max(1u, fixed.group_size);
  shape.bank_count = fixed.bank_count != 0 ? fixed.bank_count : std::max(MinBanks(schedule), fixed.queue_depth);
  shape.queue_depth = fixed.queue_depth != 0 ? fixed.queue_depth : 1;
  return shape;
}

std::optional<ShapeChoice> ChooseShape(const ServiceProfile& profile, const StreamedModel& model,
                                       std::span<const WorkloadLength> workload, const TunerOptions& options) {
  return Search(profile, model, workload, options).Run();
}

ModelOutcome PredictRequest(const ServiceProfile& profile, const StreamedModel& model, uint32_t tokens,
                            Schedule schedule, const StreamShape& shape) {
  const LengthTimes length = TimesAt(profile, tokens);
  return Simulate(RequestMaker(profile, model, length).Make(schedule, shape.group_size, shape.queue_depth), schedule,
                  shape);
}

}  // namespace estream
