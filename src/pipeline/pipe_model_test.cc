// SPDX-License-Identifier: Apache-2.0
// Eq. 5 by hand, against a longest path that knows no order of evaluation, and what must hold of whole requests.
#include "pipeline/pipe_model.h"

#include <gtest/gtest.h>

#include <random>

#include "pipeline/testing/pipe_script.h"

namespace estream {
namespace {

using testing::PipeRandom;
using testing::PipeRequest;
using testing::PipeSetup;

ModelLayer Layer(uint64_t block_ns, std::vector<ModelGroup> groups) { return {block_ns, std::move(groups)}; }

TEST(LayerTime, HandWorkedCases) {
  const auto same = [](uint32_t count, uint64_t read, uint64_t exec) {
    return std::vector<ModelGroup>(count, {read, exec, true, {}});
  };
  struct Case {
    const char* what;
    ModelLayer layer;
    uint32_t q, b;
    uint64_t expected;
  };
  const Case cases[] = {
      {"no group", Layer(7, {}), 1, 1, 7},
      {"one group, the read is longer than the block", Layer(3, same(1, 10, 5)), 1, 1, 15},
      {"one group, the block is longer than the read", Layer(12, same(1, 10, 5)), 1, 1, 17},
      {"one bank: read, run, read, run", Layer(0, same(3, 10, 5)), 1, 1, 45},
      {"two banks, storage is slower: reads without a gap", Layer(0, same(4, 10, 5)), 1, 2, 45},
      {"two banks, computing is slower: only the fill shows", Layer(0, same(4, 10, 20)), 1, 2, 90},
      {"two reads at a time, two banks", Layer(0, same(4, 10, 1)), 2, 2, 23},
      {"two reads at a time, four banks", Layer(0, same(4, 10, 1)), 2, 4, 22},
      {"the block hides the fill of all banks", Layer(20, same(4, 10, 20)), 2, 2, 100},
      {"not routed: left out", Layer(0, {{10, 5, true, {}}, {10, 5, false, {}}, {10, 5, true, {}}}), 1, 2, 25},
      {"none routed", Layer(4, {{10, 5, false, {}}}), 1, 2, 4},
      {"the third read is over before the second, and waits for the first only",
       Layer(0, {{10, 5, true, {}}, {30, 5, true, {}}, {10, 5, true, {}}}), 2, 3, 40},
  };
  for (const Case& c : cases) EXPECT_EQ(LayerTime(c.layer, c.q, c.b), c.expected) << c.what;
}

// The longest path to f_K, by relaxing edges in any order until nothing changes.
uint64_t LongestPath(const ModelLayer& layer, uint32_t q, uint32_t b) {
  struct Edge {
    size_t from, to;
    uint64_t length;
  };
  std::vector<ModelGroup> groups;
  for (const ModelGroup& g : layer.groups) {
    if (g.routed) groups.push_back(g);
  }
  // Nodes: 0 the begin, 1 the routes, then a, d, s, f of every group.
  const auto a = [](size_t k) { return 2 + 4 * k; };
  std::vector<Edge> edges = {{0, 1, layer.block_ns}};
  for (size_t k = groups.size(); k-- > 0;) {
    edges.push_back({a(k) + 2, a(k) + 3, groups[k].exec_ns});
    edges.push_back({a(k) + 1, a(k) + 2, 0});
    edges.push_back({1, a(k) + 2, 0});
    edges.push_back({a(k), a(k) + 1, groups[k].read_ns});
    if (k > 0) edges.push_back({a(k - 1) + 3, a(k) + 2, 0});
    if (k >= q) edges.push_back({a(k - q) + 1, a(k), 0});
    if (k >= b) edges.push_back({a(k - b) + 3, a(k), 0});
  }
  std::vector<uint64_t> longest(2 + 4 * groups.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge& e : edges) {
      if (longest[e.from] + e.length <= longest[e.to]) continue;
      longest[e.to] = longest[e.from] + e.length;
      changed = true;
    }
  }
  return groups.empty() ? layer.block_ns : longest.back();
}

TEST(LayerTime, IsTheLongestPathThroughItsDependencies) {
  const uint32_t seed = std::random_device{}();
  for (uint32_t run = 0; run < 3000; ++run) {
    PipeRandom random(seed, run);
    const PipeSetup setup = random.Setup();
    for (const ModelLayer& layer : random.Request(setup, random.Between(0, 100)).times.layers) {
      const uint32_t q = random.Between(1, 6);
      const uint32_t b = q + random.Between(0, 3);
      ASSERT_EQ(LayerTime(layer, q, b), LongestPath(layer, q, b)) << "seed " << seed << " run " << run;
    }
  }
}

// With reads of one length completions are in order, so eq. 5 says all there is to say.
TEST(Simulate, PerLayerIsTheSumOfEquationFiveWhenNothingIsSkipped) {
  const uint32_t seed = std::random_device{}();
  for (uint32_t run = 0; run < 3000; ++run) {
    PipeRandom random(seed, run);
    PipeSetup setup = random.Setup();
    setup.schedule = Schedule::kPerLayer;  // whole groups
    ModelRequest request = random.Request(setup, 100).times;
    const uint64_t read_ns = random.Between(1, 50);
    const uint32_t q = random.Between(1, 5);
    const uint32_t b = q + random.Between(q == 1 ? 1 : 0, 3);
    uint64_t sum = request.tail_ns;
    for (ModelLayer& layer : request.layers) {
      for (ModelGroup& group : layer.groups) group.read_ns = read_ns;
      sum += LayerTime(layer, q, b);
    }
    const ModelOutcome outcome = Simulate(request, Schedule::kPerLayer, {1, b, q});
    ASSERT_EQ(outcome.total_ns, sum) << "seed " << seed << " run " << run;
    ASSERT_EQ(outcome.wasted_reads, 0u);
  }
}

TEST(Simulate, TimeIsComputingAndWaitingAndNoLessThanEitherSide) {
  const uint32_t seed = std::random_device{}();
  for (uint32_t run = 0; run < 5000; ++run) {
    PipeRandom random(seed, run);
    const PipeSetup setup = random.Setup();
    const ModelOutcome o = Simulate(random.Request(setup, random.Between(0, 100)).times, setup.schedule, setup.shape);
    ASSERT_EQ(o.total_ns, o.exec_ns + o.stall_ns) << "seed " << seed << " run " << run;
    ASSERT_GE(o.total_ns, std::max(o.io_ns, o.exec_ns)) << "seed " << seed << " run " << run;
    ASSERT_GE(o.bubble_rate(), 0.0);
    ASSERT_GE(o.reads, o.wasted_reads);
  }
}

// True where every group is routed. Where some are not, more banks may mean more reads in vain.
TEST(Simulate, MoreOfAnythingIsNoSlowerWhenNothingIsReadInVain) {
  const uint32_t seed = std::random_device{}();
  for (uint32_t run = 0; run < 5000; ++run) {
    PipeRandom random(seed, run);
    PipeSetup setup = random.Setup();
    setup.schedule = Schedule::kPerLayer;  // whole groups
    ModelRequest request = random.Request(setup, 100).times;
    const uint32_t q = random.Between(1, 5);
    const uint32_t b = q + random.Between(q == 1 ? 1 : 0, 3);
    const auto total = [&](Schedule schedule, uint32_t depth, uint32_t banks) {
      return Simulate(request, schedule, {1, banks, depth}).total_ns;
    };
    SCOPED_TRACE("seed " + std::to_string(seed) + " run " + std::to_string(run));
    const Schedule later[] = {Schedule::kStream, Schedule::kPerLayer, Schedule::kAfterRouting, Schedule::kOnDemand};
    for (size_t s = 0; s + 1 < std::size(later); ++s) ASSERT_LE(total(later[s], q, b), total(later[s + 1], q, b));
    ASSERT_LE(Simulate(request, Schedule::kStream, {1, b, q}, random.Between(1, b)).total_ns,
              total(Schedule::kStream, q, b));
    for (const Schedule schedule : later) {
      const uint64_t before = total(schedule, q, b);
      ASSERT_LE(total(schedule, q, b + 1), before);
      ASSERT_LE(total(schedule, q + 1, b + 1), before);
    }
    const uint64_t before = total(Schedule::kStream, q, b);
    ModelLayer& layer = request.layers[random.Between(0, setup.layers - 1)];
    ModelGroup& group = layer.groups[random.Between(0, setup.groups() - 1)];
    ++(random.Chance(50) ? group.read_ns : random.Chance(50) ? group.exec_ns : layer.block_ns);
    ASSERT_GE(total(Schedule::kStream, q, b), before);
  }
}

TEST(Simulate, AGroupReadAfterRoutingIsReadInItsRuns) {
  // Known needed at 5: two runs of 4 and 2 instead of 20; the second group by one run of 3.
  const ModelRequest request{{Layer(5, {{20, 10, true, {4, 2}}, {20, 10, true, {3}}})}, 1};
  const ModelOutcome after = Simulate(request, Schedule::kAfterRouting, {4, 2, 1});
  EXPECT_EQ(after.reads, 3u);
  EXPECT_EQ(after.total_ns, 5u + 6 + 20 + 1);
  EXPECT_EQ(after.io_ns, 9u);
  // Two reads at once, and both groups are read before routing: whole.
  const ModelOutcome early = Simulate(request, Schedule::kStream, {4, 2, 2});
  EXPECT_EQ(early.reads, 2u);
  EXPECT_EQ(early.total_ns, 20u + 20 + 1);
}

// Read at 0 and 10 though nobody is routed to it; its bank serves the third group as soon as that is known, at 25.
TEST(Simulate, AGroupReadInVainGivesItsBankBackWhenThatIsKnown) {
  const ModelRequest request{{Layer(25, {{10, 1, true, {}}, {10, 1, false, {}}, {10, 1, true, {}}})}, 0};
  const ModelOutcome o = Simulate(request, Schedule::kStream, {1, 2, 1});
  EXPECT_EQ(o.total_ns, 36u);
  EXPECT_EQ(o.reads, 3u);
  EXPECT_EQ(o.wasted_reads, 1u);
  EXPECT_EQ(o.stall_ns, 9u);
  EXPECT_EQ(o.io_ns, 30u);
}

TEST(Simulate, AnEmptyRequestTakesNoTime) {
  const ModelOutcome o = Simulate({}, Schedule::kStream, {});
  EXPECT_EQ(o, ModelOutcome());
  EXPECT_EQ(o.bubble_rate(), 0.0);
}

}  // namespace
}  // namespace estream
