// SPDX-License-Identifier: Apache-2.0
// Requests made up for tests of the pipeline: service times for the model, and the routes that go with them.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "graph/expert_graph.h"
#include "pipeline/pipe_model.h"

namespace estream::testing {

// A stream and what it serves.
struct PipeSetup {
  Schedule schedule = Schedule::kStream;
  StreamShape shape;
  uint32_t experts = 0;  // E
  uint32_t layers = 0;

  uint32_t groups() const { return (experts - 1) / shape.group_size + 1; }
};

struct PipeRequest {
  ModelRequest times;
  std::vector<std::vector<Route>> routes;  // [layers], sorted by expert
};

class PipeRandom {
 public:
  PipeRandom(uint32_t seed, uint32_t run) {
    std::seed_seq sequence{seed, run};
    random_.seed(sequence);
  }

  uint32_t Between(uint32_t low, uint32_t high) { return low + static_cast<uint32_t>(random_() % (high - low + 1)); }
  bool Chance(uint32_t percent) { return Between(1, 100) <= percent; }

  PipeSetup Setup() {
    constexpr Schedule kAll[] = {Schedule::kStream, Schedule::kPerLayer, Schedule::kAfterRouting, Schedule::kOnDemand,
                                 Schedule::kNaive,  Schedule::kLayer2,   Schedule::kLayerAll};
    PipeSetup setup;
    setup.schedule = kAll[Between(0, std::size(kAll) - 1)];
    setup.layers = Between(1, 6);
    const uint32_t group_size = Between(1, 3);
    setup.experts = (Between(1, 20) - 1) * group_size + Between(1, group_size);
    StreamShape asked;
    do {
      asked.bank_count = Between(1, 6);
      asked.queue_depth = Between(1, asked.bank_count);
      asked.group_size = std::min(group_size, setup.experts);
      setup.shape = asked;
      const auto own = ResolveShape(setup.schedule, {0, 0, 0}, setup.experts, setup.layers);
      if (setup.schedule >= Schedule::kNaive) setup.shape = *own;
    } while (!CheckShape(setup.schedule, setup.shape, setup.experts).ok());
    return setup;
  }

  // Short times make much happen at one instant, long ones make orders differ. A read takes at least 1 ns.
  PipeRequest Request(const PipeSetup& setup, uint32_t routed_percent) {
    const uint32_t longest = Chance(50) ? 3 : 100;
    const uint32_t longest_block = Chance(30) ? 0 : 5 * longest;
    PipeRequest request;
    request.times.tail_ns = Between(0, longest);
    for (uint32_t l = 0; l < setup.layers; ++l) {
      ModelLayer layer;
      layer.block_ns = Between(0, longest_block);
      std::vector<Route> routes;
      const uint32_t percent = Chance(20) ? 10 : routed_percent;  // now and then a layer with few routes
      for (uint32_t g = 0; g < setup.groups(); ++g) {
        layer.groups.push_back(
            {Between(1, longest), Between(0, longest), routed_percent == 100 || Chance(percent), {}});
        if (layer.groups.back().routed) AddRoutes(setup, g, &routes);
      }
      request.times.layers.push_back(std::move(layer));
      request.routes.push_back(std::move(routes));
    }
    return request;
  }

 private:
  void AddRoutes(const PipeSetup& setup, uint32_t group, std::vector<Route>* routes) {
    const uint32_t first = group * setup.shape.group_size;
    const uint32_t last = std::min(first + setup.shape.group_size, setup.experts) - 1;
    const size_t before = routes->size();
    for (uint32_t n = Between(1, 4); n > 0; --n) routes->push_back({Between(first, last), 0, 1});
    std::sort(routes->begin() + static_cast<ptrdiff_t>(before), routes->end(),
              [](const Route& a, const Route& b) { return a.expert < b.expert; });
  }

  std::mt19937 random_;
};

}  // namespace estream::testing
