// SPDX-License-Identifier: Apache-2.0
// Requests made up for tests of the pipeline: service times for the model, and the routes that go with them.
#pragma once

#include <algorithm>
#include <map>
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
  bool sparse_reads = false;

  uint32_t groups() const { return (experts - 1) / shape.group_size + 1; }
};

struct PipeRequest {
  ModelRequest times;
  std::vector<std::vector<Route>> routes;  // [layers], sorted by expert
  // With sparse reads: how long that of a part of a group takes, by the record it begins with, counted along the file.
  std::map<uint64_t, uint64_t> run_ns;
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
    constexpr Schedule kAll[] = {Schedule::kStream,   Schedule::kPerLayer,      Schedule::kAfterRouting,
                                 Schedule::kOnDemand, Schedule::kNaive,         Schedule::kLayer2,
                                 Schedule::kLayerAll, Schedule::kGraphPerExpert};
    PipeSetup setup;
    setup.schedule = kAll[Between(0, std::size(kAll) - 1)];
    setup.layers = Between(1, 6);
    const uint32_t group_size = Between(1, 5);
    setup.sparse_reads = Chance(50);
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
    longest_ = Chance(50) ? 3 : 100;
    const uint32_t longest_block = Chance(30) ? 0 : 5 * longest_;
    // Layers from here on, all or the last, are said to have few routes, which matters to a stream.
    const bool few = setup.schedule == Schedule::kStream && setup.experts > 1 && Chance(30);
    const uint32_t few_from = few ? Between(0, 1) * (setup.layers - 1) : setup.layers;
    PipeRequest request;
    request.times.tail_ns = Between(0, longest_);
    for (uint32_t l = 0; l < setup.layers; ++l) {
      ModelLayer layer;
      layer.block_ns = Between(0, longest_block);
      layer.early = l < few_from;
      request.times.layers.push_back(std::move(layer));
      request.routes.emplace_back();
      const uint32_t percent = Chance(20) ? 10 : routed_percent;  // now and then a layer with few routes
      for (uint32_t g = 0; g < setup.groups(); ++g) {
        AddGroup(setup, l, g, routed_percent == 100 || Chance(percent), &request);
      }
    }
    return request;
  }

 private:
  void AddGroup(const PipeSetup& setup, uint32_t layer, uint32_t g, bool routed, PipeRequest* request) {
    ModelGroup group{Between(1, longest_), Between(0, longest_), routed, {}};
    const uint32_t begin = g * setup.shape.group_size;
    const uint32_t end = std::min(begin + setup.shape.group_size, setup.experts);
    std::vector<uint32_t> counts(end - begin + 1);
    for (uint32_t n = routed ? Between(1, 4) : 0; n > 0; --n) ++counts[Between(0, end - begin - 1)];
    for (uint32_t e = begin; e < end; ++e) {
      request->routes[layer].insert(request->routes[layer].end(), counts[e - begin], {e, 0, 1});
    }
    // Three quarters of a group or more are read as a whole.
    const auto experts = static_cast<size_t>(std::ranges::count_if(counts, [](uint32_t n) { return n > 0; }));
    if (setup.sparse_reads && ReadsSparse(setup.schedule) && 4 * experts < 3 * (end - begin)) {
      for (uint32_t e = begin; e < end; ++e) {
        if (counts[e - begin] == 0 || (e > begin && counts[e - begin - 1] > 0)) continue;
        group.run_ns.push_back(Between(1, longest_));
        request->run_ns[uint64_t{layer} * setup.experts + e] = group.run_ns.back();
      }
    }
    request->times.layers[layer].groups.push_back(std::move(group));
  }

  uint32_t longest_ = 0;
  std::mt19937 random_;
};

}  // namespace estream::testing
