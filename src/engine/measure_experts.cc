// SPDX-License-Identifier: Apache-2.0
// Calls of one expert give X by routes; calls of several with one route each tell what a call costs apart from them.
#include "engine/measure_experts.h"

#include <algorithm>
#include <span>

#include "base/macros.h"
#include "base/trace.h"

namespace estream {
namespace {

// More than the last-level cache of a processor that streams: an expert comes from memory, as after a read.
constexpr uint64_t kArenaBytes = uint64_t{96} << 20;

// The experts of one class on the device, and what calls of them bind.
class ClassRig {
 public:
  ClassRig(Device* device, uint32_t most_routes) : device_(device), most_routes_(most_routes) {}
  ~ClassRig() {
    for (const DeviceBuffer* b : {&x_, &y_, &routes_, &placement_, &arena_}) {
      if (b->id != 0) device_->Free(*b);
    }
  }

  // Loads the first experts of `layer`.
  Status Load(const ModelPlan& plan, uint32_t layer, RecordSource* source) {
    const ExpertSpec& spec = plan.expert_classes[plan.layers[layer].expert_class];
    experts_ = static_cast<uint32_t>(std::clamp<uint64_t>(kArenaBytes / spec.record_bytes, 1, plan.experts));
    const uint64_t rows = uint64_t{most_routes_} * spec.hidden * sizeof(float);
    ES_ASSIGN_OR_RETURN(x_, device_->Allocate(rows, "profile rows"));
    ES_ASSIGN_OR_RETURN(y_, device_->Allocate(rows, "profile rows"));
    ES_ASSIGN_OR_RETURN(routes_, device_->Allocate(most_routes_ * sizeof(Route), "profile routes"));
    ES_ASSIGN_OR_RETURN(placement_, device_->Allocate(experts_ * sizeof(int32_t), "profile placement"));
    ES_ASSIGN_OR_RETURN(arena_, device_->Allocate(experts_ * spec.record_bytes, "profile experts"));
    ES_ASSIGN_OR_RETURN(call_.graph, device_->Build(spec, Capacity{most_routes_, most_routes_}));
    for (uint32_t e = 0; e < experts_; ++e) {
      placement_.as<int32_t>()[e] = static_cast<int32_t>(e);
      ES_RETURN_IF_ERROR(
          source->ReadRecord(ExpertRecord(plan, layer, e), {arena_.host + e * spec.record_bytes, spec.record_bytes}));
    }
    // Rows of norm 1 an element, as behind a norm; the values do not matter otherwise.
    uint32_t state = 1;
    for (float& v : std::span(x_.as<float>(), rows / sizeof(float))) {
      state = state * 69069 + 1;
      v = static_cast<float>(state >> 8) * 0x1p-23f - 1;
    }
    call_.expert_count = call_.slot_count = experts_;
    call_.tokens = most_routes_;
    call_.slot_stride = spec.record_bytes;
    call_.x = x_.ref();
    call_.y = y_.ref();
    call_.routes = routes_.ref();
    call_.placement = placement_.ref();
    call_.arena = arena_.ref();
    return Run(1, most_routes_).status();  // quantises x, touches all memory
  }

  uint32_t experts() const { return experts_; }

  // Nanoseconds of one call with the next `experts` experts and `routes` routes each.
  Result<uint64_t> Run(uint32_t experts, uint32_t routes) {
    uint32_t count = 0;
    next_ = next_ + experts <= experts_ ? next_ : 0;
    for (uint32_t e = 0; e < experts; ++e, ++next_) {
      for (uint32_t i = 0; i < routes; ++i) routes_.as<Route>()[count++] = {next_, i, 1.0f};
    }
    call_.route_count = count;
    const uint64_t begin = NowNs();
    ES_ASSIGN_OR_RETURN(const Ticket ticket, device_->Submit(call_));
    ES_RETURN_IF_ERROR(device_->Wait(ticket));
    call_.same_x = 1;  // from the second call on
    return NowNs() - begin;
  }

  // The least of as many calls as `seconds` hold, three at least: what other programs take from the processor shows in
  // real requests, as exec_scale.
  Result<uint64_t> Least(uint32_t experts, uint32_t routes, double seconds) {
    uint64_t least = UINT64_MAX;
    const uint64_t until = NowNs() + static_cast<uint64_t>(seconds * 1e9);
    for (int calls = 0; calls < 3 || NowNs() < until; ++calls) {
      ES_ASSIGN_OR_RETURN(const uint64_t ns, Run(experts, routes));
      least = std::min(least, ns);
    }
    return least;
  }

 private:
  Device* const device_;
  const uint32_t most_routes_;
  uint32_t experts_ = 0;
  uint32_t next_ = 0;
  DeviceBuffer x_, y_, routes_, placement_, arena_;
  ExpertInvocation call_;
};

Result<ExpertTimes> MeasureClass(ClassRig* rig, const ExpertMeasureOptions& options,
                                 const std::function<void(double)>& progress) {
  std::vector<RoutesTime> calls;
  for (const uint32_t routes : options.routes) {
    if (options.cancel != nullptr && *options.cancel) return Status::Cancelled("interrupted");
    ES_ASSIGN_OR_RETURN(const uint64_t ns, rig->Least(1, routes, options.seconds));
    calls.push_back({routes, ns});
    progress(static_cast<double>(calls.size()) / static_cast<double>(options.routes.size()));
  }
  ExpertTimes times;
  const uint64_t single = calls.front().ns;
  const uint32_t together = std::min({8u, rig->experts(), options.routes.back()});
  if (together > 1 && calls.front().routes == 1) {
    ES_ASSIGN_OR_RETURN(const uint64_t several, rig->Least(together, 1, options.seconds));
    const uint64_t each = several > single ? (several - single) / (together - 1) : 0;
    times.call_ns = single > each ? std::min(single - each, single / 2) : 0;
  }
  for (const RoutesTime& call : calls) {
    times.by_routes.push_back({call.routes, std::max<uint64_t>(1, call.ns - std::min(call.ns, times.call_ns))});
  }
  return times;
}

}  // namespace

Result<std::vector<ExpertTimes>> MeasureExperts(const ModelPlan& plan, RecordSource* source, Device* device,
                                                const ExpertMeasureOptions& options) {
  const auto classes = static_cast<double>(plan.expert_classes.size());
  std::vector<ExpertTimes> all;
  for (uint32_t c = 0; c < plan.expert_classes.size(); ++c) {
    const auto has_class = [&](uint32_t l) { return plan.layers[l].expert_class == c; };
    const auto layer = std::find_if(plan.sparse_layers.begin(), plan.sparse_layers.end(), has_class);
    if (layer == plan.sparse_layers.end()) {  // a part of a model may lack one
      all.push_back(all.empty() ? ExpertTimes{0, {{1, 1}}} : all.back());
      continue;
    }
    ClassRig rig(device, options.routes.back());
    ES_RETURN_IF_ERROR(rig.Load(plan, *layer, source));
    ES_ASSIGN_OR_RETURN(ExpertTimes times, MeasureClass(&rig, options, [&](double share) {
                          if (options.progress) options.progress((c + share) / classes);
                        }));
    all.push_back(std::move(times));
  }
  return all;
}

}  // namespace estream
