// SPDX-License-Identifier: Apache-2.0
// Routes of a slot are gathered, run through the gated FFN and scattered, up to kRowBlock at once. A token goes to
// several experts, so it is quantised once, before any gathers it.
#include "device/cpu/expert.h"

#include <fmt/format.h>

#include "base/macros.h"
#include "kernels/activation.h"

namespace estream {

ExpertOp::ExpertOp(const ExpertSpec& spec, const Capacity& capacity, Activations activations, ScratchPlan* plan)
    : spec_(spec),
      takes_floats_(!TakesQ8(activations, spec.gate) || !TakesQ8(activations, spec.up)),
      takes_q8_(TakesQ8(activations, spec.gate) || TakesQ8(activations, spec.up)) {
  const uint32_t rows = std::min(kRowBlock, capacity.routes);
  offsets_ = plan->Shared<uint32_t>(kMaxSlots + 1);
  records_ = plan->Shared<RouteRecord>(capacity.routes);
  if (takes_floats_) gathered_ = plan->Shared<float>(rows * PaddedStride(spec.hidden));
  if (takes_q8_) {
    gathered_q8_ = QuantizedScratch::Plan(*plan, rows, spec.hidden);
    tokens_q8_ = QuantizedScratch::Plan(*plan, capacity.tokens, spec.hidden);
  }
  ffn_ = GatedFfn(spec.down, rows, activations, plan);
}

Status ExpertOp::Run(const CpuContext& context, const BoundExpertCall& call, bool x_is_quantized) const {
  if (call.routes.empty()) return Status::Ok();
  if (call.slot_count > kMaxSlots) {
    return Status::InvalidArgument(
        fmt::format("an arena of {} slots, the CPU device supports up to {}", call.slot_count, kMaxSlots));
  }
  const std::span<uint32_t> offsets(offsets_.at(context.scratch), call.slot_count + 1);
  const std::span<RouteRecord> records(records_.at(context.scratch), call.routes.size());
  ES_CHECK(BuildRouteMap(call.routes, call.placement, offsets, records));  // binding has looked at every route
  if (takes_q8_ && !x_is_quantized) QuantizeTokens(context, call);
  for (uint32_t slot = 0; slot < call.slot_count; ++slot) {
    const std::byte* record = call.arena + slot * call.slot_stride;
    for (uint32_t first = offsets[slot]; first < offsets[slot + 1]; first += kRowBlock) {
      RunExpert(context, call, record, records.subspan(first, std::min(kRowBlock, offsets[slot + 1] - first)));
    }
  }
  return Status::Ok();
}

void ExpertOp::QuantizeTokens(const CpuContext& context, const BoundExpertCall& call) const {
  ForEachRow(context, call.tokens, [&](uint32_t, uint32_t token) {
    QuantizeRow(call.x + uint64_t{token} * spec_.hidden, 0, Token(context, token));
  });
}

// The quantised row of one token: its blocks lie side by side, so that gathering it reads one stretch of memory.
QuantizedRows ExpertOp::Token(const CpuContext& context, uint64_t token) const {
  QuantizedRows row = tokens_q8_.at(context.scratch, 1, spec_.hidden);
  row.values += token * spec_.hidden;
  row.blocks += token * (spec_.hidden / kTileElements);
  return row;
}

// x of the routes' tokens, row by row, in the forms that gate and up read.
ProductRows ExpertOp::Gather(const CpuContext& context, const BoundExpertCall& call,
                             std::span<const RouteRecord> routes) const {
  const uint64_t hidden = spec_.hidden, blocks = hidden / kTileElements;
  float* const floats = gathered_.at(context.scratch);
  ProductRows x{.x = floats, .stride = PaddedStride(hidden), .rows = static_cast<uint32_t>(routes.size()), .q = {}};
  if (takes_q8_) x.q = gathered_q8_.at(context.scratch, x.rows, hidden);
  ForEachRow(context, x.rows, [&](uint32_t, uint32_t r) {
    const uint64_t token = routes[r].token;
    if (takes_floats_) std::copy_n(call.x + token * hidden, hidden, floats + r * x.stride);
    if (!takes_q8_) return;
    const QuantizedRows from = Token(context, token);
    for (uint64_t b = 0; b < blocks; ++b) {
      const uint64_t to = b * x.rows + r;
      std::copy_n(from.values + b * kTileElements, kTileElements, x.q.values + to * kTileElements);
      x.q.blocks[to] = from.blocks[b];
    }
  });
  return x;
}

// y[t] += α · W_d (SiLU(W_g x[t]) ⊙ W_u x[t]) for up to kRowBlock routes of one expert.                       (eq. 1-2)
void ExpertOp::RunExpert(const CpuContext& context, const BoundExpertCall& call, const std::byte* record,
                         std::span<const RouteRecord> routes) const {
  const TiledMatrix gate(spec_.gate, record), up(spec_.up, record), down(spec_.down, record);
  const auto rows = static_cast<uint32_t>(routes.size());
  const uint64_t hidden = spec_.hidden;
  const ProductRows x = Gather(context, call, routes);
  ffn_.Run(context, gate, up, down, x, [&](const ProductColumns& c) {
    for (uint32_t r = 0; r < rows; ++r) {
      const float weight = call.routes[routes[r].route].weight;
      AddScaled(weight, c.row(r), c.count, call.y + routes[r].token * hidden + c.first);
    }
  });
}

}  // namespace estream
