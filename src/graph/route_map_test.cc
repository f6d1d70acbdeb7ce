// SPDX-License-Identifier: Apache-2.0
// The composed binding against a sort that does the same in plain sight.
#include "graph/route_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace estream {
namespace {

using ::testing::ElementsAre;

TEST(RouteMap, SortsRoutesBySlotAndKeepsTheirOrder) {
  const std::vector<Route> routes = {{2, 0, 0.5f}, {0, 0, 0.25f}, {2, 1, 0.125f}, {1, 1, 1.0f}};
  const std::vector<int32_t> placement = {3, 0, 1};  // expert 0 in slot 3, 1 in 0, 2 in 1; slot 2 is empty
  std::vector<uint32_t> offsets(5);
  std::vector<RouteRecord> records(4);
  ASSERT_TRUE(BuildRouteMap(routes, placement, offsets, records));
  EXPECT_THAT(offsets, ElementsAre(0, 1, 3, 3, 4));
  EXPECT_THAT(records, ElementsAre(RouteRecord{1, 3}, RouteRecord{0, 0}, RouteRecord{1, 2}, RouteRecord{0, 1}));
}

TEST(RouteMap, NoRoutesGiveEmptySlots) {
  std::vector<uint32_t> offsets(3, 7);
  EXPECT_TRUE(BuildRouteMap({}, std::vector<int32_t>{0, 1}, offsets, {}));
  EXPECT_THAT(offsets, ElementsAre(0, 0, 0));
}

TEST(RouteMap, AnExpertWithoutASlotIsRefused) {
  std::vector<uint32_t> offsets(2);
  std::vector<RouteRecord> records(1);
  EXPECT_FALSE(BuildRouteMap(std::vector<Route>{{1, 0, 1}}, std::vector<int32_t>{0, kNoSlot}, offsets, records));
  EXPECT_FALSE(BuildRouteMap(std::vector<Route>{{2, 0, 1}}, std::vector<int32_t>{0, 0}, offsets, records))
      << "no such expert";
  EXPECT_FALSE(BuildRouteMap(std::vector<Route>{{0, 0, 1}}, std::vector<int32_t>{1}, offsets, records))
      << "no such slot";
}

TEST(RouteMap, EqualsAStableSortOnRandomRoutes) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const uint32_t experts = 1 + random() % 130, slots = experts + random() % 5, count = random() % 300;
    std::vector<int32_t> placement(slots);
    for (uint32_t s = 0; s < slots; ++s) placement[s] = static_cast<int32_t>(s);
    std::shuffle(placement.begin(), placement.end(), random);
    placement.resize(experts);
    std::vector<Route> routes(count);
    for (Route& r : routes)
      r = {static_cast<uint32_t>(random() % experts), static_cast<uint32_t>(random() % 1000), 1.0f};

    std::vector<uint32_t> offsets(slots + 1);
    std::vector<RouteRecord> records(count);
    ASSERT_TRUE(BuildRouteMap(routes, placement, offsets, records));

    std::vector<uint32_t> order(count);
    for (uint32_t i = 0; i < count; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return placement[routes[a].expert] < placement[routes[b].expert]; });
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(records[i], (RouteRecord{routes[order[i]].token, order[i]}));
      const auto slot = static_cast<uint32_t>(placement[routes[order[i]].expert]);
      EXPECT_TRUE(offsets[slot] <= i && i < offsets[slot + 1]);
    }
  }
}

}  // namespace
}  // namespace estream
