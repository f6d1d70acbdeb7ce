// SPDX-License-Identifier: Apache-2.0
// The composed binding of routes and placement: routes sorted by slot, in compressed sparse row form.  (§3.2, Algorithm
// 1)
#pragma once

#include <cstdint>
#include <span>

#include "graph/expert_graph.h"

namespace estream {

// (t_i, i): the token row and the index of its route, which still knows α_i.
struct RouteRecord {
  uint32_t token = 0;
  uint32_t route = 0;

  bool operator==(const RouteRecord&) const = default;
};
static_assert(sizeof(RouteRecord) == 8);

// Resolves every route's slot ψ_i = Φ(e_i), counts per slot, forms prefix sums and stores (t_i, i) by slot: the routes
// of slot s are records[offsets[s] .. offsets[s + 1]), in the order in which they came.
//
//   routes     [R]
//   placement  [experts] slot < P, or kNoSlot
//   offsets    [P + 1] written
//   records    [R] written
//   returns    false, with offsets and records unspecified, when a route's expert is out of range or in no slot
//
// Cost: O(P + R), no allocation. Plain code without library calls: the NPU runs it too.
bool BuildRouteMap(std::span<const Route> routes, std::span<const int32_t> placement, std::span<uint32_t> offsets,
                   std::span<RouteRecord> records);

}  // namespace estream
