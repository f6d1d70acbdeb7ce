// SPDX-License-Identifier: Apache-2.0
// Everything a call could get wrong is found here, so that operators and kernels trust what they are given.
#include "device/bound_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked_math.h"
#include "base/macros.h"
#include "device/spec_check.h"
#include "format/tile.h"

namespace estream {
namespace {

Result<std::byte*> Place(const BufferTable& buffers, const char* what, const BufferRef& ref, uint64_t bytes) {
  auto place = buffers.Resolve(ref, bytes);
  if (!place.ok()) return place.status().WithPrefix(fmt::format("{}: ", what));
  return place;
}

Status CheckAligned(const char* what, const BufferRef& ref) {
  if (ref.offset % 4 == 0) return Status::Ok();
  return Status::InvalidArgument(fmt::format("{} at offset {}, which is no multiple of 4", what, ref.offset));
}

// `count` values of T at `ref`.
template <class T>
Result<T*> Array(const BufferTable& buffers, const char* what, const BufferRef& ref, uint64_t count) {
  static_assert(alignof(T) <= 4);
  ES_RETURN_IF_ERROR(CheckAligned(what, ref));
  ES_ASSIGN_OR_RETURN(std::byte* const place, Place(buffers, what, ref, count * sizeof(T)));
  return reinterpret_cast<T*>(place);
}

// The start of a record that reaches up to the end of each part.
template <class... Parts>
Result<const std::byte*> Record(const BufferTable& buffers, const BufferRef& ref, const Parts&... parts) {
  ES_RETURN_IF_ERROR(CheckAligned("weights", ref));
  ES_ASSIGN_OR_RETURN(std::byte* const place, Place(buffers, "weights", ref, std::max({PartEnd(parts)...})));
  return const_cast<const std::byte*>(place);
}

Status CheckApart(const char* a_name, const BufferRef& a, uint64_t a_bytes, const char* b_name, const BufferRef& b,
                  uint64_t b_bytes) {
  if (a.buffer != b.buffer || a.offset + a_bytes <= b.offset || b.offset + b_bytes <= a.offset) return Status::Ok();
  return Status::InvalidArgument(fmt::format("{} and {} overlap in device buffer {}", a_name, b_name, a.buffer));
}

uint64_t RowsBytes(uint64_t rows, uint64_t width) { return rows * width * sizeof(float); }

// `row_ids` of a call that may have them; without any, the call is over all tokens.
Result<const uint32_t*> BindRowIds(const BufferTable& buffers, const BlockInvocation& call, bool ascending) {
  if (call.row_ids.none()) {
    if (call.rows == call.tokens) return static_cast<const uint32_t*>(nullptr);
    return Status::InvalidArgument(fmt::format("{} rows of {} tokens without row_ids", call.rows, call.tokens));
  }
  ES_ASSIGN_OR_RETURN(const uint32_t* const ids, Array<const uint32_t>(buffers, "row_ids", call.row_ids, call.rows));
  for (uint32_t r = 0; r < call.rows; ++r) {
    if (ids[r] >= call.tokens) {
      return Status::InvalidArgument(fmt::format("row_ids[{}] is {} of {} tokens", r, ids[r], call.tokens));
    }
    if (ascending && r > 0 && ids[r] < ids[r - 1]) {
      return Status::InvalidArgument(
          fmt::format("row_ids[{}] is {} after {}, expected ascending", r, ids[r], ids[r - 1]));
    }
  }
  return ids;
}

Status BindKind(const EmbeddingSpec& spec, const BufferTable& buffers, const BlockInvocation& call,
                BoundBlockCall* bound) {
  ES_ASSIGN_OR_RETURN(bound->weights,
                      Place(buffers, "weights", call.weights, RowBytes(spec.format, spec.hidden) * call.tokens));
  ES_ASSIGN_OR_RETURN(bound->out, Array<float>(buffers, "out", call.out, uint64_t{call.tokens} * spec.hidden));
  return Status::Ok();
}

Status BindKind(const NormSpec& spec, const BufferTable& buffers, const BlockInvocation& call, BoundBlockCall* bound) {
  ES_ASSIGN_OR_RETURN(bound->weights, Record(buffers, call.weights, spec.norm));
  ES_ASSIGN_OR_RETURN(bound->in, Array<const float>(buffers, "in", call.in, uint64_t{call.tokens} * spec.hidden));
  ES_ASSIGN_OR_RETURN(bound->out, Array<float>(buffers, "out", call.out, uint64_t{call.rows} * spec.hidden));
  ES_ASSIGN_OR_RETURN(bound->row_ids, BindRowIds(buffers, call, /*ascending=*/false));
  if (bound->row_ids == nullptr && call.in == call.out) return Status::Ok();
  return CheckApart("in", call.in, RowsBytes(call.tokens, spec.hidden), "out", call.out,
                    RowsBytes(call.rows, spec.hidden));
}

Status BindKind(const LinearSpec& spec, const BufferTable& buffers, const BlockInvocation& call,
                BoundBlockCall* bound) {
  const MatrixSpec& m = spec.matrix;
  const uint64_t end_row = uint64_t{call.first_row} + call.row_count;
  if (call.first_row % kTileRows != 0 || end_row > m.rows) {
    return Status::InvalidArgument(fmt::format("matrix rows {} to {}, expected a multiple of {} and at most {}",
                                               call.first_row, end_row, kTileRows, m.rows));
  }
  if (call.out_stride < call.row_count) {
    return Status::InvalidArgument(fmt::format("out_stride {} for {} values a row", call.out_stride, call.row_count));
  }
  MatrixSpec part = m;  // only the panels of this call need to be there
  part.rows = static_cast<uint32_t>(end_row);
  ES_ASSIGN_OR_RETURN(bound->weights, Record(buffers, call.weights, part));
  ES_ASSIGN_OR_RETURN(bound->in, Array<const float>(buffers, "in", call.in, uint64_t{call.rows} * m.cols));
  const uint64_t out_count = uint64_t{call.rows - 1} * call.out_stride + call.row_count;
  ES_ASSIGN_OR_RETURN(bound->out, Array<float>(buffers, "out", call.out, out_count));
  return CheckApart("in", call.in, RowsBytes(call.rows, m.cols), "out", call.out, out_count * sizeof(float));
}

// Rows in and out of a block that adds to the residual.
Status BindMixer(uint32_t hidden, const BufferTable& buffers, const BlockInvocation& call, BoundBlockCall* bound) {
  ES_ASSIGN_OR_RETURN(bound->in, Array<const float>(buffers, "in", call.in, uint64_t{call.tokens} * hidden));
  ES_ASSIGN_OR_RETURN(bound->out, Array<float>(buffers, "out", call.out, uint64_t{call.rows} * hidden));
  ES_ASSIGN_OR_RETURN(bound->row_ids, BindRowIds(buffers, call, /*ascending=*/true));
  if (bound->row_ids == nullptr && call.in == call.out) return Status::Ok();
  return CheckApart("in", call.in, RowsBytes(call.tokens, hidden), "out", call.out, RowsBytes(call.rows, hidden));
}

Status BindKind(const AttentionSpec& spec, const BufferTable& buffers, const BlockInvocation& call,
                BoundBlockCall* bound) {
  VectorSpec q_norm = spec.q_norm, k_norm = spec.k_norm;
  if (spec.qk_norm == QkNorm::kNone) q_norm = k_norm = {};
  ES_ASSIGN_OR_RETURN(bound->weights,
                      Record(buffers, call.weights, spec.norm, q_norm, k_norm, spec.q, spec.k, spec.v, spec.output));
  return BindMixer(spec.hidden, buffers, call, bound);
}

Status BindKind(const LatentAttentionSpec& spec, const BufferTable& buffers, const BlockInvocation& call,
                BoundBlockCall* bound) {
  const MatrixSpec& keys = spec.split != 0 ? spec.k_b : spec.kv_b;
  const MatrixSpec& values = spec.split != 0 ? spec.v_b : spec.kv_b;
  ES_ASSIGN_OR_RETURN(bound->weights, Record(buffers, call.weights, spec.norm, spec.latent_norm, spec.q, spec.kv_a,
                                             keys, values, spec.output));
  return BindMixer(spec.hidden, buffers, call, bound);
}

Status BindKind(const ShortConvSpec& spec, const BufferTable& buffers, const BlockInvocation& call,
                BoundBlockCall* bound) {
  ES_ASSIGN_OR_RETURN(bound->weights, Record(buffers, call.weights, spec.norm, spec.conv, spec.in_proj, spec.out_proj));
  return BindMixer(spec.hidden, buffers, call, bound);
}

Status BindKind(const FfnSpec& spec, const BufferTable& buffers, const BlockInvocation& call, BoundBlockCall* bound) {
  ES_ASSIGN_OR_RETURN(bound->weights, Record(buffers, call.weights, spec.gate, spec.up, spec.down));
  ES_ASSIGN_OR_RETURN(bound->in, Array<const float>(buffers, "in", call.in, uint64_t{call.rows} * spec.hidden));
  ES_ASSIGN_OR_RETURN(bound->out, Array<float>(buffers, "out", call.out, uint64_t{call.rows} * spec.hidden));
  return CheckApart("in", call.in, RowsBytes(call.rows, spec.hidden), "out", call.out,
                    RowsBytes(call.rows, spec.hidden));
}

Status BindKind(const RouterSpec& spec, const BufferTable& buffers, const BlockInvocation& call,
                BoundBlockCall* bound) {
  ES_ASSIGN_OR_RETURN(bound->weights, Record(buffers, call.weights, spec.norm, spec.router, spec.bias));
  ES_ASSIGN_OR_RETURN(bound->in, Array<const float>(buffers, "in", call.in, uint64_t{call.rows} * spec.hidden));
  ES_ASSIGN_OR_RETURN(bound->out, Array<float>(buffers, "out", call.out, uint64_t{call.rows} * spec.hidden));
  ES_ASSIGN_OR_RETURN(bound->routes, Array<Route>(buffers, "routes", call.routes, uint64_t{call.rows} * spec.top_k));
  return CheckApart("in", call.in, RowsBytes(call.rows, spec.hidden), "out", call.out,
                    RowsBytes(call.rows, spec.hidden));
}

// Routes name tokens of the call and experts in slots.
Status CheckRoutes(const ExpertInvocation& call, std::span<const Route> routes, std::span<const int32_t> placement) {
  for (size_t i = 0; i < routes.size(); ++i) {
    const Route& route = routes[i];
    if (route.token >= call.tokens) {
      return Status::InvalidArgument(fmt::format("route {} names token {} of {}", i, route.token, call.tokens));
    }
    if (route.expert >= placement.size()) {
      return Status::InvalidArgument(fmt::format("route {} names expert {} of {}", i, route.expert, placement.size()));
    }
    const int32_t slot = placement[route.expert];
    if (slot < 0 || static_cast<uint32_t>(slot) >= call.slot_count) {
      return Status::InvalidArgument(
          fmt::format("route {} names expert {}, which is in slot {} of {}", i, route.expert, slot, call.slot_count));
    }
  }
  return Status::Ok();
}

// The arena holds a whole record in each of its slots.
Result<const std::byte*> BindArena(const ExpertSpec& spec, const BufferTable& buffers, const ExpertInvocation& call) {
  if (call.slot_stride < spec.record_bytes || call.slot_stride % 4 != 0) {
    return Status::InvalidArgument(
        fmt::format("slots {} bytes apart, records have {}", call.slot_stride, spec.record_bytes));
  }
  if (call.slot_count == 0) return Status::InvalidArgument("the arena has no slot");
  const auto last = CheckedMul(call.slot_count - 1, call.slot_stride);
  const auto end = last ? CheckedAdd(*last, spec.record_bytes) : std::nullopt;
  if (!end) return Status::InvalidArgument(fmt::format("{} slots of {} bytes", call.slot_count, call.slot_stride));
  ES_RETURN_IF_ERROR(CheckAligned("arena", call.arena));
  ES_ASSIGN_OR_RETURN(std::byte* const arena, Place(buffers, "arena", call.arena, *end));
  return const_cast<const std::byte*>(arena);
}

}  // namespace

Result<BoundExpertCall> Bind(const ExpertSpec& spec, const Capacity& capacity, const BufferTable& buffers,
                             const ExpertInvocation& call) {
  if (call.tokens > capacity.tokens || call.route_count > capacity.routes) {
    return Status::InvalidArgument(fmt::format("{} tokens and {} routes in one call, the graph was built for {} and {}",
                                               call.tokens, call.route_count, capacity.tokens, capacity.routes));
  }
  BoundExpertCall bound;
  if (call.route_count == 0) return bound;
  const uint64_t values = uint64_t{call.tokens} * spec.hidden;
  ES_ASSIGN_OR_RETURN(bound.x, Array<const float>(buffers, "x", call.x, values));
  ES_ASSIGN_OR_RETURN(bound.y, Array<float>(buffers, "y", call.y, values));
  ES_RETURN_IF_ERROR(CheckApart("x", call.x, values * sizeof(float), "y", call.y, values * sizeof(float)));
  ES_ASSIGN_OR_RETURN(const Route* const routes, Array<const Route>(buffers, "routes", call.routes, call.route_count));
  ES_ASSIGN_OR_RETURN(const int32_t* const placement,
                      Array<const int32_t>(buffers, "placement", call.placement, call.expert_count));
  bound.routes = {routes, call.route_count};
  bound.placement = {placement, call.expert_count};
  ES_RETURN_IF_ERROR(CheckRoutes(call, bound.routes, bound.placement));
  ES_ASSIGN_OR_RETURN(bound.arena, BindArena(spec, buffers, call));
  bound.slot_count = call.slot_count;
  bound.slot_stride = call.slot_stride;
  bound.tokens = call.tokens;
  bound.same_x = call.same_x != 0;
  return bound;
}

Result<BoundBlockCall> Bind(const BlockSpec& spec, const Capacity& capacity, const BufferTable& buffers,
                            const BlockInvocation& call) {
  if (call.tokens > capacity.tokens || call.rows > capacity.tokens) {
    return Status::InvalidArgument(fmt::format("{} tokens and {} rows in one call, the graph was built for {}",
                                               call.tokens, call.rows, capacity.tokens));
  }
  BoundBlockCall bound;
  const bool embedding = std::holds_alternative<EmbeddingSpec>(spec);
  if ((embedding ? call.tokens : call.rows) == 0) return bound;
  ES_RETURN_IF_ERROR(std::visit([&](const auto& s) { return BindKind(s, buffers, call, &bound); }, spec));
  bound.tokens = call.tokens;
  bound.rows = call.rows;
  bound.first_row = call.first_row;
  bound.row_count = call.row_count;
  bound.out_stride = call.out_stride;
  return bound;
}

}  // namespace estream
