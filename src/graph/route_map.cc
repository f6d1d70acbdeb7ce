// SPDX-License-Identifier: Apache-2.0
// Counting sort by slot. Offsets double as cursors: after the second pass offsets[s] has moved to the start of s + 1,
// so one shift at the end restores them and no second array is needed.
#include "graph/route_map.h"

namespace estream {

bool BuildRouteMap(std::span<const Route> routes, std::span<const int32_t> placement, std::span<uint32_t> offsets,
                   std::span<RouteRecord> records) {
  const size_t slots = offsets.size() - 1;
  for (uint32_t& o : offsets) o = 0;
  for (const Route& route : routes) {
    if (route.expert >= placement.size()) return false;
    const int32_t slot = placement[route.expert];
    if (slot < 0 || static_cast<size_t>(slot) >= slots) return false;
    ++offsets[static_cast<size_t>(slot) + 1];
  }
  for (size_t s = 0; s < slots; ++s) offsets[s + 1] += offsets[s];
  for (uint32_t i = 0; i < routes.size(); ++i) {
    uint32_t& cursor = offsets[static_cast<size_t>(placement[routes[i].expert])];
    records[cursor++] = {routes[i].token, i};
  }
  for (size_t s = slots; s > 0; --s) offsets[s] = offsets[s - 1];
  offsets[0] = 0;
  return true;
}

}  // namespace estream
