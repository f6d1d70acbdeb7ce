// SPDX-License-Identifier: Apache-2.0
// The routed-expert path as plain data: what is built once per shape class, and what one call binds.        (§3.2)
#pragma once

#include <cstdint>

#include "graph/refs.h"

namespace estream {

// One token sent to one expert: token row `token` goes to expert `expert` with weight alpha.  (e_i, t_i, α_i)
// `expert` counts positions in pack order π_l.
struct Route {
  uint32_t expert = 0;
  uint32_t token = 0;
  float weight = 0;

  bool operator==(const Route&) const = default;
};
static_assert(sizeof(Route) == 12);

// A shape class: experts with these dimensions, formats and places of projections in their record share one graph.
struct ExpertSpec {
  uint32_t hidden = 0;
  uint32_t ffn = 0;
  MatrixSpec gate;            // [ffn, hidden]
  MatrixSpec up;              // [ffn, hidden]
  MatrixSpec down;            // [hidden, ffn]
  uint64_t record_bytes = 0;  // W_e of this class, a multiple of the page size

  bool operator==(const ExpertSpec&) const = default;
};
static_assert(sizeof(ExpertSpec) == 88);

// A placement entry for an expert that is in no slot (⊥).
inline constexpr int32_t kNoSlot = -1;

// One call of an expert graph:  y[t] += α · W_d (SiLU(W_g x[t]) ⊙ W_u x[t])  for every route.           (eq. 1-3)
//
//   x          [tokens, hidden] f32 row-major; not aliased with y
//   y          [tokens, hidden] f32; accumulated in place (holds the residual on entry)
//   routes     [route_count] Route; every token < tokens, every expert < expert_count and placed
//   placement  [expert_count] i32: Φ_l, the slot of each expert or kNoSlot
//   same_x     1: the call before this one was of the same graph and the same x, of which nothing was written since; so
//              what the device made of x then (rows as int8) may serve again. 0 is always right.
//   arena      slot s begins at arena + s * slot_stride and holds a record of the graph's class
//
// Routes of one token are summed in the order of slots, then of routes.
struct ExpertInvocation {
  uint32_t graph = 0;
  uint32_t tokens = 0;
  uint32_t route_count = 0;  // R <= the graph's max_routes
  uint32_t expert_count = 0;
  uint32_t slot_count = 0;  // P
  uint32_t same_x = 0;
  uint64_t slot_stride = 0;
  BufferRef x;
  BufferRef y;
  BufferRef routes;
  BufferRef placement;
  BufferRef arena;
};
static_assert(sizeof(ExpertInvocation) == 112);

}  // namespace estream
