// SPDX-License-Identifier: Apache-2.0
// The model foretells the real pipeline: on a virtual clock a request ends exactly when Simulate says, after the same
// reads and waits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "pipeline/testing/virtual_pipe.h"
#include "pipeline/testing/watchdog.h"
#include "tests/sanitized.h"

namespace estream {

void PrintTo(const ModelOutcome& o, std::ostream* out) {
  *out << fmt::format("total {} exec {} io {} stall {} reads {} wasted {}", o.total_ns, o.exec_ns, o.io_ns, o.stall_ns,
                      o.reads, o.wasted_reads);
}

namespace {

using testing::PipeRandom;
using testing::PipeRequest;
using testing::PipeSetup;
using testing::VirtualPipe;
using testing::Watchdog;

std::string Describe(uint32_t seed, uint32_t run, const PipeSetup& s) {
  return fmt::format("seed {} run {}: {} E={} layers {} G={} B={} Q={}{}", seed, run, ScheduleName(s.schedule),
                     s.experts, s.layers, s.shape.group_size, s.shape.bank_count, s.shape.queue_depth,
                     s.sparse_reads ? ", sparse" : "");
}

// How many groups a stream that was kept warm reads before a request comes.
uint32_t ReadAhead(const PipeSetup& setup) {
  if (!ReadsEarly(setup.schedule) || setup.schedule == Schedule::kPerLayer) return 0;
  return std::min(setup.shape.bank_count, setup.layers * setup.groups());
}

TEST(VirtualPipe, RandomRequestsEndExactlyWhenTheModelSays) {
  const Watchdog watchdog("random requests on a virtual clock");
  const uint32_t seed = std::random_device{}();
  uint64_t stalls = 0, wasted = 0;
  for (uint32_t run = 0; run < (kSanitized ? 1000 : 4000); ++run) {
    PipeRandom random(seed, run);
    const PipeSetup setup = random.Setup();
    const PipeRequest request = random.Request(setup, random.Between(0, 100));
    VirtualPipe pipe(setup, random.Between(1, 5), false);
    const ModelOutcome model = Simulate(request.times, setup.schedule, setup.shape);
    ASSERT_EQ(pipe.Run(request), model) << Describe(seed, run, setup);
    stalls += model.stall_ns > 0;
    wasted += model.wasted_reads;
  }
  // The requests must reach every rule, else the test above shows nothing.
  EXPECT_GT(stalls, 300u);
  EXPECT_GT(wasted, 300u);
}

TEST(VirtualPipe, TheSecondRequestOfAWarmStreamFindsItsFirstBanksFilled) {
  const Watchdog watchdog("two requests on a virtual clock");
  const uint32_t seed = std::random_device{}();
  for (uint32_t run = 0; run < (kSanitized ? 300 : 1000); ++run) {
    PipeRandom random(seed, run);
    const PipeSetup setup = random.Setup();
    const uint32_t percent = random.Between(0, 100);
    const PipeRequest first = random.Request(setup, percent);
    const PipeRequest second = random.Request(setup, percent);
    const bool warm = random.Chance(70);
    VirtualPipe pipe(setup, random.Between(1, 5), warm);
    pipe.Run(first);
    pipe.Drain();
    // What is not to be read early is not kept either.
    const uint32_t ahead = warm ? ReadAhead(setup) : 0;
    const auto early = std::ranges::count_if(second.times.layers, [](const ModelLayer& layer) { return layer.early; });
    const uint32_t filled = std::min(ahead, static_cast<uint32_t>(early) * setup.groups());
    ModelOutcome model = Simulate(second.times, setup.schedule, setup.shape, filled);
    model.wasted_reads += ahead - filled;
    ASSERT_EQ(pipe.Run(second, filled), model) << Describe(seed, run, setup) << (warm ? ", warm" : "");
  }
}

TEST(VirtualPipe, ThereIsNoInitialFillWhenAStreamIsKeptWarm) {
  const Watchdog watchdog("the initial fill");
  PipeSetup setup{Schedule::kStream, {1, 3, 2}, 6, 2};
  PipeRequest request;
  for (uint32_t l = 0; l < setup.layers; ++l) {
    request.times.layers.push_back({5, std::vector<ModelGroup>(6, {20, 25, true, {}})});
    request.routes.push_back({{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {3, 0, 1}, {4, 0, 1}, {5, 0, 1}});
  }
  const uint64_t compute = 2 * 5 + 12 * 25;
  for (const bool warm : {false, true}) {
    VirtualPipe pipe(setup, 8, warm);
    const ModelOutcome first = pipe.Run(request);
    EXPECT_EQ(first.stall_ns, 15u) << "the first group comes after 20, the routes after 5";
    EXPECT_EQ(first.total_ns, compute + 15);
    pipe.Drain();
    const ModelOutcome second = pipe.Run(request, warm ? 3 : 0);
    EXPECT_EQ(second.stall_ns, warm ? 0u : 15u);
    EXPECT_EQ(second.reads, warm ? 9u : 12u) << "three were read after the first request";
  }
}

}  // namespace
}  // namespace estream
