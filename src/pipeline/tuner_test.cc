// SPDX-License-Identifier: Apache-2.0
// The nested search against evaluating every shape, on random machines and models.
#include "pipeline/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>

#include "tests/sanitized.h"

namespace estream {
namespace {

constexpr uint64_t kPage = 4096;

struct World {
  ServiceProfile profile;
  StreamedModel model;
  std::vector<WorkloadLength> workload;
};

// A machine that reads at some bandwidth behind some latency, a device some times faster or slower than that, and a
// skewed router.
World RandomWorld(uint32_t seed, uint32_t layers, uint32_t experts) {
  std::mt19937 rng(seed);
  const auto uniform = [&](double low, double high) { return std::uniform_real_distribution<>(low, high)(rng); };
  World w;
  const uint64_t record = kPage * static_cast<uint64_t>(uniform(20, 2000));
  w.model.experts = experts;
  w.model.layers.assign(layers, {record, 0});
  const double ns_a_byte = 1 / uniform(0.3, 5), latency_ns = uniform(2e4, 2e6), saturated = uniform(1, 4);
  for (const uint32_t q : {1u, 2u, 4u, 8u}) {
    for (const uint32_t g : GroupSizes(experts)) {
      const double alone = latency_ns + static_cast<double>(g * record) * ns_a_byte;
      w.profile.reads.push_back({g * record, q, static_cast<uint64_t>(alone * std::max(1.0, q / saturated))});
    }
  }
  const double read_ns = static_cast<double>(record) * ns_a_byte;
  const double row_ns = read_ns * std::exp(uniform(-7, 1)), fixed_ns = row_ns * uniform(0, 8);
  ExpertTimes times;
  times.call_ns = static_cast<uint64_t>(uniform(0, 5e5));
  for (const uint32_t r : {1u, 8u, 64u, 1024u})
    times.by_routes.push_back({r, static_cast<uint64_t>(fixed_ns + r * row_ns)});
  w.profile.classes = {times};
  for (const uint32_t tokens : {16u, 64u, 256u, 1024u}) {
    LengthTimes length;
    length.tokens = tokens;
    length.first_ns = length.block_ns = static_cast<uint64_t>(tokens * row_ns * uniform(0.5, 5));
    length.last_ns = length.block_ns / 2;
    length.tail_ns = static_cast<uint64_t>(uniform(0, 1e7));
    length.exec_scale = uniform(1, 1.3);
    std::vector<double> skew;
    for (uint32_t e = 0; e < experts; ++e) skew.push_back(std::exp(uniform(-2, 2)));
    std::discrete_distribution<uint32_t> router(skew.begin(), skew.end());
    for (const uint32_t rows : {tokens, tokens, tokens, 1u}) {
      std::vector<uint32_t> routes(experts);
      for (uint32_t i = 0; i < rows * std::min(8u, experts); ++i) ++routes[router(rng)];
      length.routes.push_back(routes);
    }
    w.profile.lengths.push_back(length);
    w.workload.push_back({tokens, uniform(0.1, 1)});
  }
  return w;
}

double MeanNs(const World& w, Schedule schedule, const StreamShape& shape) {
  double sum = 0, weights = 0;
  for (const WorkloadLength& length : w.workload) {
    sum += length.weight *
           static_cast<double>(PredictRequest(w.profile, w.model, length.tokens, schedule, shape).total_ns);
    weights += length.weight;
  }
  return sum / weights;
}

struct Exhaustive {
  double best_ns = INFINITY;
  double worst_growth = 0;  // the most that one more bank costs, as a share
};

// Every G, Q and B that fits.
Exhaustive TryAll(const World& w, const TunerOptions& options) {
  Exhaustive all;
  std::set<uint32_t> depths;
  for (const ReadTime& r : w.profile.reads) depths.insert(r.depth);
  for (const uint32_t g : GroupSizes(w.model.experts)) {
    for (const uint32_t q : depths) {
      double before = INFINITY;
      const uint32_t least = std::max(2u, q), most = std::max(least, 2 * ((w.model.experts + g - 1) / g));
      for (uint32_t b = least; b <= most; ++b) {
        const StreamShape shape = {g, b, q};
        if (ArenaBytes(w.model, shape) > options.arena_bytes) break;
        const double ns = MeanNs(w, options.schedule, shape);
        all.best_ns = std::min(all.best_ns, ns);
        all.worst_growth = std::max(all.worst_growth, ns / before - 1);
        before = ns;
      }
    }
  }
  return all;
}

// The gate of regret: median 0 within the tolerance, worst 3 %.
TEST(Tuner, IsAsGoodAsEvaluatingEveryShape) {
  std::vector<double> regrets;
  double worst_growth = 0;
  const uint32_t worlds = kSanitized ? 10 : 120;
  for (uint32_t seed = 1; seed <= worlds; ++seed) {
    SCOPED_TRACE(seed);
    const World w = RandomWorld(seed, 2 + seed % 19, seed % 3 == 0 ? 8 : seed % 3 == 1 ? 32 : 60);
    TunerOptions options;
    options.schedule = seed % 4 == 0 ? Schedule::kPerLayer : Schedule::kStream;
    if (seed % 2 == 0) options.arena_bytes = w.model.slot_stride() * (4 + seed % 40);
    const auto choice = ChooseShape(w.profile, w.model, w.workload, options);
    const Exhaustive all = TryAll(w, options);
    ASSERT_EQ(choice.has_value(), std::isfinite(all.best_ns));
    if (!choice) continue;
    EXPECT_TRUE(CheckShape(options.schedule, choice->best.shape, w.model.experts).ok());
    EXPECT_LE(choice->best.arena_bytes, options.arena_bytes);
    regrets.push_back(MeanNs(w, options.schedule, choice->best.shape) / all.best_ns - 1);
    worst_growth = std::max(worst_growth, all.worst_growth);
  }
  std::sort(regrets.begin(), regrets.end());
  RecordProperty("median_regret", std::to_string(regrets[regrets.size() / 2]));
  RecordProperty("worst_regret", std::to_string(regrets.back()));
  RecordProperty("worst_growth", std::to_string(worst_growth));
  printf("regret: median %.5f, worst %.5f; one more bank costs at most %.5f\n", regrets[regrets.size() / 2],
         regrets.back(), worst_growth);
  EXPECT_LE(regrets[regrets.size() / 2], 1e-3);
  EXPECT_LE(regrets.back(), 0.03);
}

TEST(Tuner, MoreMemoryIsNeverSlower) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const World w = RandomWorld(seed, 8, 32);
    double before = INFINITY;
    for (uint64_t records = 4; records <= 64; records *= 2) {
      TunerOptions options;
      options.arena_bytes = records * (w.model.slot_stride() + kPage);
      const auto choice = ChooseShape(w.profile, w.model, w.workload, options);
      if (!choice) continue;
      EXPECT_LE(static_cast<double>(choice->best.mean_ns), before * 1.002);
      before = std::min(before, static_cast<double>(choice->best.mean_ns));
    }
  }
}

TEST(Tuner, OfEqualShapesTheSmallestArena) {
  World w = RandomWorld(3, 6, 16);
  for (LengthTimes& length : w.profile.lengths) length.block_ns = length.first_ns = length.last_ns = 1'000'000'000'000;
  const auto choice = ChooseShape(w.profile, w.model, w.workload, {});
  ASSERT_TRUE(choice);
  // Blocks so long that reading hides behind them whatever the shape.
  EXPECT_EQ(choice->best.shape.group_size, 1u);
}

TEST(Tuner, WhatIsFixedStays) {
  const World w = RandomWorld(5, 6, 16);
  TunerOptions options;
  options.fixed = {4, 0, 2};
  auto choice = ChooseShape(w.profile, w.model, w.workload, options);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->best.shape.group_size, 4u);
  EXPECT_EQ(choice->best.shape.queue_depth, 2u);
  options.fixed = {0, 3, 0};
  choice = ChooseShape(w.profile, w.model, w.workload, options);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->best.shape.bank_count, 3u);
  EXPECT_LE(choice->best.shape.queue_depth, 3u);
  World deep = w;
  std::erase_if(deep.profile.reads, [](const ReadTime& r) { return r.depth < 8; });
  choice = ChooseShape(deep.profile, deep.model, deep.workload, options);
  ASSERT_TRUE(choice) << "a profile of deep queues only";
  EXPECT_EQ(choice->best.shape.queue_depth, 3u);
}

TEST(Tuner, OneReadAtATimeOnlyWhereNoMoreFit) {
  const World w = RandomWorld(7, 6, 16);
  TunerOptions options;
  options.schedule = Schedule::kOnDemand;
  options.arena_bytes = ArenaBytes(w.model, {1, 1, 1});
  auto choice = ChooseShape(w.profile, w.model, w.workload, options);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->best.shape.queue_depth, 1u);
  options.arena_bytes *= 2;
  choice = ChooseShape(w.profile, w.model, w.workload, options);
  ASSERT_TRUE(choice);
  EXPECT_GE(choice->best.shape.queue_depth, 2u);
}

TEST(Tuner, NothingFitsBelowTheSmallestArena) {
  const World w = RandomWorld(7, 6, 16);
  TunerOptions options;
  options.fixed.queue_depth = 1;
  options.arena_bytes = ArenaBytes(w.model, SmallestShape(options.schedule, options.fixed));
  EXPECT_TRUE(ChooseShape(w.profile, w.model, w.workload, options));
  --options.arena_bytes;
  EXPECT_FALSE(ChooseShape(w.profile, w.model, w.workload, options));
}

// What the five milliseconds of a choice are made of; how many they are is printed, not asserted.
TEST(Tuner, ChoosesByAFewHundredEvaluations) {
  for (const auto& [layers, experts] : {std::pair(16u, 64u), std::pair(48u, 128u)}) {
    const World w = RandomWorld(11, layers, experts);
    double least_ms = INFINITY;
    std::optional<ShapeChoice> choice;
    for (int i = 0; i < 9; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      choice = ChooseShape(w.profile, w.model, w.workload, {});
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
      least_ms = std::min(least_ms, took.count());
    }
    ASSERT_TRUE(choice);
    printf("%u layers of %u experts: %u evaluations, %.2f ms\n", layers, experts, choice->evaluations, least_ms);
    EXPECT_LE(choice->evaluations, 600u);
  }
}

// Where reads go one after the other whatever their number, more in flight only need more banks.
TEST(Tuner, DepthsThatGainNothingAreNotTaken) {
  World w = RandomWorld(13, 6, 32);
  for (ReadTime& r : w.profile.reads) r.ns = r.bytes * r.depth;
  const auto choice = ChooseShape(w.profile, w.model, w.workload, {});
  ASSERT_TRUE(choice);
  EXPECT_LE(choice->best.shape.queue_depth, 2u);
}

TEST(ServiceProfile, DepthIsTheSmallestWithinFivePercentForEverySize) {
  ServiceProfile profile;
  profile.reads = {{100, 1, 100}, {400, 1, 200}, {100, 2, 105}, {400, 2, 390}, {100, 4, 205}, {400, 4, 790}};
  EXPECT_EQ(ChooseQueueDepth(profile), 2u);
  profile.reads[2].ns = 150;  // 1.33 against 1.95
  EXPECT_EQ(ChooseQueueDepth(profile), 4u);
}

TEST(ServiceProfile, ReadsAreInterpolatedByBytes) {
  ServiceProfile profile;
  profile.reads = {{100, 1, 50}, {300, 1, 150}, {100, 4, 80}};
  EXPECT_EQ(ReadNs(profile, 100, 1), 50u);
  EXPECT_EQ(ReadNs(profile, 200, 1), 100u);
  EXPECT_EQ(ReadNs(profile, 600, 1), 300u);
  EXPECT_EQ(ReadNs(profile, 10, 1), 50u);
  EXPECT_EQ(ReadNs(profile, 100, 3), 50u) << "the nearest smaller depth";
  EXPECT_EQ(ReadNs(profile, 100, 8), 80u);
}

TEST(ServiceProfile, ExpertsAreInterpolatedByRoutes) {
  const ExpertTimes times{5, {{1, 10}, {4, 16}, {8, 40}}};
  EXPECT_EQ(ExpertNs(times, 0), 0u);
  EXPECT_EQ(ExpertNs(times, 1), 10u);
  EXPECT_EQ(ExpertNs(times, 3), 14u);
  EXPECT_EQ(ExpertNs(times, 16), 88u);
  EXPECT_EQ(ExpertNs({0, {{4, 100}}}, 8), 200u);
}

TEST(ServiceProfile, LengthsBetweenAreLinearAndQuadratic) {
  ServiceProfile profile;
  LengthTimes a, b;
  a.tokens = 100;
  b.tokens = 200;
  a.block_ns = 100 * 3 + 100 * 100 * 2;
  b.block_ns = 200 * 3 + 200 * 200 * 2;
  a.routes = {{10, 0}, {1, 0}};
  b.routes = {{20, 5}, {0, 1}};
  profile.lengths = {a, b};
  EXPECT_EQ(TimesAt(profile, 100), a);
  EXPECT_EQ(TimesAt(profile, 150).block_ns, 150u * 3 + 150 * 150 * 2);
  EXPECT_EQ(TimesAt(profile, 400).block_ns, 400u * 3 + 400 * 400 * 2);
  EXPECT_EQ(TimesAt(profile, 400).routes[0], (std::vector<uint32_t>{40, 10}));
  EXPECT_EQ(TimesAt(profile, 400).routes[1], b.routes[1]) << "one row in the last layer";
  EXPECT_EQ(TimesAt(profile, 50).block_ns, a.block_ns / 2);
}

// By hand: two layers of two experts, one bank ahead.
TEST(ServiceProfile, RequestsHaveTheGroupsOfTheirLength) {
  ServiceProfile profile;
  profile.reads = {{kPage, 1, 10}, {2 * kPage, 1, 18}};
  profile.classes = {{3, {{1, 5}, {2, 7}}}};
  LengthTimes length;
  length.tokens = 2;
  length.first_ns = 100;
  length.block_ns = 50;
  length.last_ns = 20;
  length.tail_ns = 4;
  length.exec_scale = 2;
  length.routes = {{2, 1, 0}, {0, 0, 1}};
  profile.lengths = {length};
  StreamedModel model;
  model.experts = 3;
  model.layers = {{kPage, 0}, {kPage, 0}};
  const ModelRequest request = RequestMaker(profile, model, length).Make(Schedule::kStream, 2, 1);
  ASSERT_EQ(request.layers.size(), 2u);
  EXPECT_EQ(request.tail_ns, 4u);
  EXPECT_EQ(request.layers[0].block_ns, 100u);
  EXPECT_EQ(request.layers[1].block_ns, 20u);
  const auto& first = request.layers[0].groups;
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].read_ns, 18u);
  EXPECT_EQ(first[0].exec_ns, 2 * (7u + 5u) + 3u);
  EXPECT_EQ(first[1].read_ns, 10u) << "the last group is short";
  EXPECT_FALSE(first[1].routed);
  EXPECT_TRUE(request.layers[1].groups[1].routed);
  EXPECT_TRUE(first[0].run_ns.empty());
  EXPECT_TRUE(request.layers[1].early);

  // With all three in one group: expert 2 alone is read when it is the only one.
  const ModelRequest sparse = RequestMaker(profile, model, length).Make(Schedule::kStream, 3, 1);
  EXPECT_EQ(sparse.layers[0].groups[0].run_ns, std::vector<uint64_t>{18});
  EXPECT_EQ(sparse.layers[1].groups[0].run_ns, std::vector<uint64_t>{10});
  const ModelRequest whole = RequestMaker(profile, model, length).Make(Schedule::kPerLayer, 3, 1);
  EXPECT_TRUE(whole.layers[1].groups[0].run_ns.empty());
}

}  // namespace
}  // namespace estream
