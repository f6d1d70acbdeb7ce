// SPDX-License-Identifier: Apache-2.0
// Routes of a slot are gathered, run through the gated FFN and scattered, up to kRowBlock at once. A token goes to
// several experts, so it is quantised once, before any gathers it.
#include "device/cpu/expert.h"

#include <fmt/format.h>

#include <cstring>

#include "base/macros.h"
#include "kernels/activation.h"

namespace estream {
namespace {

// Some routes of one slot: records[first] to records[first + count - 1].
struct Piece {
  uint32_t slot = 0;
  uint32_t first = 0;
  uint32_t count = 0;  // 0: no routes are left
};

// The routes after `piece` that are computed at once: at most kRowBlock of one slot.
Piece NextPiece(std::span<const uint32_t> offsets, const Piece& piece) {
  Piece next = {piece.slot, piece.first + piece.count, 0};
  while (next.slot + 1 < offsets.size() && offsets[next.slot + 1] <= next.first) ++next.slot;
  if (next.slot + 1 < offsets.size()) next.count = std::min(kRowBlock, offsets[next.slot + 1] - next.first);
  return next;
}

}  // namespace

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
  const auto record = [&](const Piece& piece) { return call.arena + piece.slot * call.slot_stride; };
  for (Piece piece = NextPiece(offsets, {}), next; piece.count > 0; piece = next) {
    next = NextPiece(offsets, piece);
    RunExpert(context, call, record(piece), records.subspan(piece.first, piece.count),
              next.count > 0 ? record(next) : nullptr);
  }
  return Status::Ok();
}

void ExpertOp::QuantizeTokens(const CpuContext& context, const BoundExpertCall& call) const {
  ForEachRow(context, call.tokens, [&](uint32_t, uint32_t token) {
    QuantizeRow(call.x + uint64_t{token} * spec_.hidden, 0, Token(context, token));
  });
}

// The quantised row of one token: its blocks lie side by side.
QuantizedRows ExpertOp::Token(const CpuContext& context, uint64_t token) const {
  QuantizedRows row = tokens_q8_.at(context.scratch, 1, spec_.hidden);
  row.values += token * spec_.hidden;
  row.blocks += token * (spec_.hidden / kTileElements);
  return row;
}

// x of the routes' tokens in the forms that gate and up read. Int8 rows lie block by block, so threads take blocks: few
// cache lines are written by both then.
ProductRows ExpertOp::Gather(const CpuContext& context, const BoundExpertCall& call,
                             std::span<const RouteRecord> routes) const {
  const uint64_t hidden = spec_.hidden, blocks = hidden / kTileElements;
  float* const floats = gathered_.at(context.scratch);
  ProductRows x{.x = floats, .stride = PaddedStride(hidden), .rows = static_cast<uint32_t>(routes.size()), .q = {}};
  if (takes_q8_) x.q = gathered_q8_.at(context.scratch, x.rows, hidden);
  if (takes_floats_) {
    ForEachRow(context, x.rows, [&](uint32_t, uint32_t r) {
      std::copy_n(call.x + routes[r].token * hidden, hidden, floats + r * x.stride);
    });
  }
  if (takes_q8_) {
    const QuantizedRows from = Token(context, 0);
    ForEachRow(context, static_cast<uint32_t>(blocks), [&](uint32_t, uint32_t b) {
      int8_t* values = x.q.values + uint64_t{b} * x.rows * kTileElements;
      ActivationBlock* block = x.q.blocks + uint64_t{b} * x.rows;
      for (const RouteRecord& route : routes) {
        const uint64_t at = route.token * blocks + b;
        std::memcpy(values, from.values + at * kTileElements, kTileElements);
        *block++ = from.blocks[at];
        values += kTileElements;
      }
    });
  }
  return x;
}

// y[t] += α · W_d (SiLU(W_g x[t]) ⊙ W_u x[t]) for up to kRowBlock routes of one expert.                       (eq. 1-2)
void ExpertOp::RunExpert(const CpuContext& context, const BoundExpertCall& call, const std::byte* record,
                         std::span<const RouteRecord> routes, const std::byte* next_record) const {
  const TiledMatrix gate(spec_.gate, record), up(spec_.up, record), down(spec_.down, record);
  const std::byte* const next_gate = next_record == nullptr ? nullptr : next_record + spec_.gate.offset;
  const auto rows = static_cast<uint32_t>(routes.size());
  const uint64_t hidden = spec_.hidden;
  const ProductRows x = Gather(context, call, routes);
  ffn_.Run(context, gate, up, down, x, next_gate, [&](const ProductColumns& c) {
    for (uint32_t r = 0; r < rows; ++r) {
      const float weight = call.routes[routes[r].route].weight;
      AddScaled(weight, c.row(r), c.count, call.y + routes[r].token * hidden + c.first);
    }
  });
}

}  // namespace estream
