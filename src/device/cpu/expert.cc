// SPDX-License-Identifier: Apache-2.0
// Routes of a slot are gathered, run through the gated FFN and scattered, up to kRowBlock at once.
#include "device/cpu/expert.h"

#include <fmt/format.h>

#include "base/macros.h"
#include "kernels/activation.h"

namespace estream {

ExpertOp::ExpertOp(const ExpertSpec& spec, const Capacity& capacity, ScratchPlan* plan) : spec_(spec) {
  const uint32_t rows = std::min(kRowBlock, capacity.routes);
  offsets_ = plan->Shared<uint32_t>(kMaxSlots + 1);
  records_ = plan->Shared<RouteRecord>(capacity.routes);
  gathered_ = plan->Shared<float>(rows * PaddedStride(spec.hidden));
  ffn_ = GatedFfn(spec.ffn, rows, plan);
}

Status ExpertOp::Run(const CpuContext& context, const BoundExpertCall& call) const {
  if (call.routes.empty()) return Status::Ok();
  if (call.slot_count > kMaxSlots) {
    return Status::InvalidArgument(
        fmt::format("an arena of {} slots, the CPU device supports up to {}", call.slot_count, kMaxSlots));
  }
  const std::span<uint32_t> offsets(offsets_.at(context.scratch), call.slot_count + 1);
  const std::span<RouteRecord> records(records_.at(context.scratch), call.routes.size());
  ES_CHECK(BuildRouteMap(call.routes, call.placement, offsets, records));  // binding has looked at every route
  for (uint32_t slot = 0; slot < call.slot_count; ++slot) {
    const std::byte* record = call.arena + slot * call.slot_stride;
    for (uint32_t first = offsets[slot]; first < offsets[slot + 1]; first += kRowBlock) {
      RunExpert(context, call, record, records.subspan(first, std::min(kRowBlock, offsets[slot + 1] - first)));
    }
  }
  return Status::Ok();
}

// y[t] += α · W_d (SiLU(W_g x[t]) ⊙ W_u x[t]) for up to kRowBlock routes of one expert.                       (eq. 1-2)
void ExpertOp::RunExpert(const CpuContext& context, const BoundExpertCall& call, const std::byte* record,
                         std::span<const RouteRecord> routes) const {
  const TiledMatrix gate(spec_.gate, record), up(spec_.up, record), down(spec_.down, record);
  const auto rows = static_cast<uint32_t>(routes.size());
  const uint64_t hidden = spec_.hidden;
  const uint64_t x_stride = PaddedStride(hidden);
  float* const x = gathered_.at(context.scratch);

  ForEachRow(context, rows,
             [&](uint32_t, uint32_t r) { std::copy_n(call.x + routes[r].token * hidden, hidden, x + r * x_stride); });

  ffn_.Run(context, gate, up, down, x, x_stride, rows, [&](uint64_t panel, const float* tile) {
    for (uint32_t r = 0; r < rows; ++r) {
      const float weight = call.routes[routes[r].route].weight;
      AddScaled(weight, tile + size_t{r} * kTileRows, PanelColumns(down.rows, panel),
                call.y + routes[r].token * hidden + panel * kTileRows);
    }
  });
}

}  // namespace estream
