// SPDX-License-Identifier: Apache-2.0
// The nested search of eq. 9 and 10, with Q among what is searched.
#include "pipeline/tuner.h"

#include <algorithm>
#include <cmath>

#include "base/macros.h"

namespace estream {
namespace {

// Layers of the search's requests: enough for the steady state between first and last, few enough for 5 ms.
constexpr uint32_t kSearchLayers = 16;

class Search {
 public:
  Search(const ServiceProfile& profile, const StreamedModel& model, std::span<const WorkloadLength> workload,
         const TunerOptions& options)
      : model_(model), workload_(workload), options_(options) {
    for (const WorkloadLength& w : workload) {
      makers_.emplace_back(profile, model, TimesAt(profile, w.tokens), kSearchLayers);
      weights_ += w.weight;
    }
    if (options.fixed.queue_depth != 0) {
      depths_ = {options.fixed.queue_depth};
    } else {
      const uint32_t most = options.fixed.bank_count != 0 ? options.fixed.bank_count : UINT32_MAX;
      for (const ReadTime& r : profile.reads) {
        const uint32_t depth = std::min(r.depth, most);
        if (depths_.empty() || depths_.back() < depth) depths_.push_back(depth);
      }
    }
  }

  std::optional<ShapeChoice> Run() {
    std::vector<std::vector<Point>> groups = Points([](uint32_t q) { return q > 1; });
    if (groups.empty()) groups = Points([](uint32_t q) { return q == 1; });
    if (groups.empty()) return std::nullopt;
    double best = INFINITY;
    for (const auto& points : groups) best = std::min(best, BestOf(points));
    ShapeChoice choice;
    const double limit = best * (1 + options_.tolerance);
    for (const std::vector<Point>& points : groups) choice.by_group.push_back(BestOfGroup(points, limit));
    const ShapeCandidate* chosen = nullptr;
    for (const ShapeCandidate& c : choice.by_group) {
      if (static_cast<double>(c.mean_ns) > limit + 1) continue;
      if (chosen == nullptr || c.arena_bytes < chosen->arena_bytes) chosen = &c;
    }
    ES_CHECK(chosen != nullptr);  // the group of the best time is within the limit
    choice.best = *chosen;
    choice.evaluations = evaluations_;
    return choice;
  }

 private:
  // A G and a Q, with the range of B.
  struct Point {
    StreamShape least, most;
    double at_most = 0;
    std::vector<ModelRequest> requests;
  };

  std::vector<uint32_t> Groups() const {
    return options_.fixed.group_size != 0 ? std::vector<uint32_t>{options_.fixed.group_size}
                                          : GroupSizes(model_.experts);
  }

  double Evaluate(const Point& point, uint32_t banks) {
    StreamShape shape = point.least;
    shape.bank_count = banks;
    double sum = 0;
    for (size_t i = 0; i < workload_.size(); ++i) {
      sum += workload_[i].weight * static_cast<double>(Simulate(point.requests[i], options_.schedule, shape).total_ns);
      ++evaluations_;
    }
    return sum / weights_;
  }

  // By G, then Q, what fits.
  template <class Allowed>
  std::vector<std::vector<Point>> Points(const Allowed& allowed) {
    std::vector<std::vector<Point>> groups;
    for (const uint32_t g : Groups()) {
      std::vector<Point> points;
      for (const uint32_t q : depths_) {
        if (!allowed(q)) continue;
        if (std::optional<Point> point = WithMostBanks(g, q)) points.push_back(std::move(*point));
      }
      if (!points.empty()) groups.push_back(std::move(points));
    }
    return groups;
  }

  static double BestOf(const std::vector<Point>& points) {
    double best = INFINITY;
    for (const Point& point : points) best = std::min(best, point.at_most);
    return best;
  }

  // B from Q to what fits, at most two layers, since reads of one layer ahead of another already need no more; nothing
  // when not even the least fits.                                                                             (eq. 8)
  std::optional<Point> WithMostBanks(uint32_t g, uint32_t q) {
    Point point;
    const uint32_t fixed = options_.fixed.bank_count;
    const uint32_t least = fixed != 0 ? fixed : std::max(q, MinBanks(options_.schedule));
    point.least = {g, least, std::min(q, least)};
    if (ArenaBytes(model_, point.least) > options_.arena_bytes) return std::nullopt;
    const uint64_t fits = options_.arena_bytes / std::max<uint64_t>(1, ArenaBytes(model_, {g, 1, 1}));
    const uint64_t two_layers = 2 * ((uint64_t{model_.experts} + g - 1) / g);
    point.most = point.least;
    if (fixed == 0) {
      point.most.bank_count = static_cast<uint32_t>(std::max<uint64_t>(least, std::min(fits, two_layers)));
    }
    for (const RequestMaker& maker : makers_) {
      point.requests.push_back(maker.Make(options_.schedule, g, point.least.queue_depth));
    }
    point.at_most = Evaluate(point, point.most.bank_count);
    return point;
  }

  // Of the depths that come near the best of all, or else of this group, the one that does so with the fewest banks.
  ShapeCandidate BestOfGroup(const std::vector<Point>& points, double limit) {
    limit = std::max(limit, BestOf(points) * (1 + options_.tolerance));
    std::optional<ShapeCandidate> found;
    for (const Point& point : points) {
      if (point.at_most > limit) continue;
      if (found) {
        const uint32_t fewer = found->shape.bank_count - 1;
        if (fewer < point.least.bank_count || Evaluate(point, fewer) > limit) continue;
      }
      found = FewestBanks(point, limit);
    }
    return *found;
  }

  // Pre: at_most is within the limit.
  ShapeCandidate FewestBanks(const Point& point, double limit) {
    uint32_t low = point.least.bank_count, high = low;
    double time = Evaluate(point, high);
    while (time > limit && high < point.most.bank_count) {
      low = high + 1;
      high = std::min(2 * high, point.most.bank_count);
      time = high == point.most.bank_count ? point.at_most : Evaluate(point, high);
    }
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      const double there = Evaluate(point, middle);
      if (there <= limit) {
        high = middle;
        time = there;
      } else {
        low = middle + 1;
      }
    }
    ShapeCandidate found;
    found.shape = {point.least.group_size, high, point.least.queue_depth};
    found.arena_bytes = ArenaBytes(model_, found.shape);
    found.mean_ns = static_cast<uint64_t>(time);
    return found;
  }

  const StreamedModel& model_;
  const std::span<const WorkloadLength> workload_;
  const TunerOptions& options_;
  std::vector<RequestMaker> makers_;  // by length
  double weights_ = 0;
  std::vector<uint32_t> depths_;  // ascending
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
