// SPDX-License-Identifier: Apache-2.0
// Interpolation between measured points.
#include "pipeline/service_profile.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "residency/tape_walk.h"

namespace estream {
namespace {

// At most hours, so that sums over a request stay far from the end of 64 bits.
uint64_t Rounded(double ns) { return static_cast<uint64_t>(std::llround(std::clamp(ns, 0.0, 1e13))); }

double Between(double x, double x0, double y0, double x1, double y1) {
  return x1 == x0 ? y0 : y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

// Scales an expert's routes to another length; an expert with many does not lose its last one.
uint32_t ScaledRoutes(uint32_t routes, double scale) { return static_cast<uint32_t>(Rounded(routes * scale)); }

// T_ne at `tokens`: a·T + b·T² through two lengths, so the time a token is a line.
uint64_t BlockNs(uint32_t tokens, const LengthTimes& a, const LengthTimes& b, uint64_t LengthTimes::*member) {
  const double t = tokens, rate_a = static_cast<double>(a.*member) / a.tokens;
  const double rate_b = static_cast<double>(b.*member) / b.tokens;
  // Shorter ones than measured are not extrapolated: there the time a token is no line but fixed cost.
  if (tokens <= a.tokens) return Rounded(rate_a * t);
  return Rounded(t * std::max(Between(t, a.tokens, rate_a, b.tokens, rate_b), std::min(rate_a, rate_b)));
}

}  // namespace

uint64_t StreamedModel::slot_stride() const {
  uint64_t most = 0;
  for (const Layer& layer : layers) most = std::max(most, layer.record_bytes);
  return most;
}

uint64_t ReadNs(const ServiceProfile& profile, uint64_t bytes, uint32_t depth) {
  uint32_t measured = profile.reads.front().depth;
  for (const ReadTime& r : profile.reads) {
    if (r.depth <= depth) measured = r.depth;
  }
  const ReadTime* below = nullptr;
  const ReadTime* above = nullptr;
  for (const ReadTime& r : profile.reads) {
    if (r.depth != measured) continue;
    if (r.bytes <= bytes) below = &r;
    if (r.bytes >= bytes && above == nullptr) above = &r;
  }
  const double size = static_cast<double>(bytes);
  if (below == nullptr || above == nullptr) {
    const ReadTime& end = below != nullptr ? *below : *above;
    // A small read is dominated by what every read costs; a large one by its bytes.
    if (below == nullptr) return end.ns;
    return Rounded(static_cast<double>(end.ns) * size / static_cast<double>(end.bytes));
  }
  return Rounded(Between(size, static_cast<double>(below->bytes), static_cast<double>(below->ns),
                         static_cast<double>(above->bytes), static_cast<double>(above->ns)));
}

uint64_t ExpertNs(const ExpertTimes& times, uint32_t routes) {
  if (routes == 0) return 0;
  const auto& points = times.by_routes;
  if (routes <= points.front().routes) return points.front().ns;
  size_t i = 1;
  while (i + 1 < points.size() && points[i].routes < routes) ++i;
  if (points.size() == 1) {
    return Rounded(static_cast<double>(points[0].ns) * routes / points[0].routes);
  }
  const double ns = Between(routes, points[i - 1].routes, static_cast<double>(points[i - 1].ns), points[i].routes,
                            static_cast<double>(points[i].ns));
  return std::max(Rounded(ns), points[i - 1].ns);
}

uint32_t ChooseQueueDepth(const ServiceProfile& profile) {
  std::set<uint64_t> sizes;
  std::set<uint32_t> depths;
  for (const ReadTime& r : profile.reads) {
    sizes.insert(r.bytes);
    depths.insert(r.depth);
  }
  const auto bandwidth = [](const ReadTime& r) {
    return static_cast<double>(r.bytes) * r.depth / std::max<double>(1, static_cast<double>(r.ns));
  };
  for (const uint32_t depth : depths) {
    bool enough = true;
    for (const uint64_t bytes : sizes) {
      double best = 0, here = 0;
      bool measured = false;
      for (const ReadTime& r : profile.reads) {
        if (r.bytes != bytes) continue;
        best = std::max(best, bandwidth(r));
        if (r.depth != depth) continue;
        measured = true;
        here = bandwidth(r);
      }
      if (measured && here < 0.95 * best) enough = false;
    }
    if (enough) return depth;
  }
  return *depths.rbegin();
}

LengthTimes TimesAt(const ServiceProfile& profile, uint32_t tokens) {
  const auto& lengths = profile.lengths;
  size_t b = 0;
  while (b + 1 < lengths.size() && lengths[b].tokens < tokens) ++b;
  if (lengths[b].tokens == tokens) return lengths[b];
  const LengthTimes& low = lengths[b == 0 ? 0 : b - 1];
  const LengthTimes& high = lengths[b];
  // The nearer one in ratio; of two equals the longer, whose routes are the better sample.
  const bool low_is_nearer = static_cast<double>(tokens) / low.tokens < static_cast<double>(high.tokens) / tokens;
  LengthTimes at = low_is_nearer ? low : high;
  const double scale = static_cast<double>(tokens) / at.tokens;
  at.tokens = tokens;
  at.first_ns = BlockNs(tokens, low, high, &LengthTimes::first_ns);
  at.block_ns = BlockNs(tokens, low, high, &LengthTimes::block_ns);
  at.last_ns = BlockNs(tokens, low, high, &LengthTimes::last_ns);
  for (size_t l = 0; l + 1 < at.routes.size(); ++l) {  // the last layer has one row whatever the length
    for (uint32_t& routes : at.routes[l]) routes = ScaledRoutes(routes, scale);
  }
  return at;
}

RequestMaker::RequestMaker(const ServiceProfile& profile, const StreamedModel& model, const LengthTimes& length,
                           uint32_t max_layers)
    : profile_(&profile), experts_(model.experts), tail_ns_(length.tail_ns) {
  const auto all = static_cast<uint32_t>(model.layers.size());
  const uint32_t used = std::min(all, std::max(max_layers, 1u));
  const auto samples = static_cast<uint32_t>(length.routes.size());
  for (uint32_t i = 0; i < used; ++i) {
    const bool last = i + 1 == used;
    const uint32_t l = last ? all - 1 : i * (all - 1) / std::max(1u, used - 1);  // spread over the model
    Layer layer;
    layer.block_ns = i == 0 ? length.first_ns : last ? length.last_ns : length.block_ns;
    layer.record_bytes = model.layers[l].record_bytes;
    const ExpertTimes& times =
        profile.classes[std::min<size_t>(model.layers[l].expert_class, profile.classes.size() - 1)];
    layer.call_ns = times.call_ns;
    const std::vector<uint32_t>& routes = length.routes[last ? samples - 1 : l % (samples - 1)];
    for (uint32_t e = 0; e < experts_; ++e) {
      const uint32_t count = e < routes.size() ? routes[e] : 0;
      const uint64_t ns = Rounded(static_cast<double>(ExpertNs(times, count)) * length.exec_scale);
      layer.exec_ns.push_back(count == 0 ? 0 : std::max<uint64_t>(1, ns));
      layer.routes += count;
    }
    layers_.push_back(std::move(layer));
  }
}

ModelGroup RequestMaker::MakeGroup(const Layer& layer, uint32_t first, uint32_t end, uint32_t queue_depth,
                                   bool sparse) const {
  ModelGroup group;
  uint32_t experts = 0;
  for (uint32_t e = first; e < end; ++e) {
    group.exec_ns += layer.exec_ns[e];
    experts += layer.exec_ns[e] > 0;
  }
  group.routed = experts > 0;
  if (!group.routed) return group;
  group.exec_ns += layer.call_ns;
  if (!sparse || !IsSparse(experts, end - first)) return group;
  for (uint32_t e = first, run = 0; e < end; ++e) {
    run = layer.exec_ns[e] > 0 ? run + 1 : 0;
    if (run > 0 && (e + 1 == end || layer.exec_ns[e + 1] == 0)) {
      group.run_ns.push_back(ReadNs(*profile_, run * layer.record_bytes, queue_depth));
    }
  }
  return group;
}

ModelRequest RequestMaker::Make(Schedule schedule, uint32_t group_size, uint32_t queue_depth) const {
  const bool sparse = ReadsSparse(schedule);
  ModelRequest request;
  request.tail_ns = tail_ns_;
  request.layers.resize(layers_.size());
  uint64_t known_bytes = 0, known_ns = 0;  // most reads are of one size
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& from = layers_[l];
    ModelLayer& to = request.layers[l];
    to.block_ns = from.block_ns;
    to.early = ReadsLayerEarly(schedule, from.routes, experts_);
    to.groups.reserve((experts_ + group_size - 1) / group_size);
    for (uint32_t first = 0; first < experts_; first += group_size) {
      const uint32_t end = std::min(first + group_size, experts_);
      ModelGroup group = MakeGroup(from, first, end, queue_depth, sparse);
      const uint64_t bytes = (end - first) * from.record_bytes;
      if (bytes != known_bytes) {
        known_bytes = bytes;
        known_ns = ReadNs(*profile_, bytes, queue_depth);
      }
      group.read_ns = known_ns;
      to.groups.push_back(std::move(group));
    }
  }
  return request;
}

}  // namespace estream
