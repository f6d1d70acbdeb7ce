// SPDX-License-Identifier: Apache-2.0
// The walk against its liveness rules in random worlds, and against eq. 5 on a virtual clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "residency/testing/walk_sim.h"

namespace estream {
namespace {

TEST(TapeWalkModel, NoRandomRequestDeadlocksOrSeesWrongBytes) {
  const uint32_t seed = std::random_device{}();
  WalkCounts total;
  for (uint32_t run = 0; run < 100000; ++run) {
    std::seed_seq sequence{seed, run};
    std::mt19937 random(sequence);
    testing::WalkSim sim([&](uint32_t n) { return static_cast<uint32_t>(random() % n); });
    const std::string error = sim.Run();
    ASSERT_EQ(error, "") << "seed " << seed << " run " << run;
    total.reads += sim.counts().reads;
    total.displaced += sim.counts().displaced;
    total.wasted_reads += sim.counts().wasted_reads;
    total.failed_reads += sim.counts().failed_reads;
    total.early_hits += sim.counts().early_hits;
    total.missed += sim.counts().missed;
  }
  // The worlds must reach every rule, else the test above shows nothing.
  EXPECT_GT(total.displaced, 1000u);
  EXPECT_GT(total.wasted_reads, 1000u);
  EXPECT_GT(total.failed_reads, 1000u);
  EXPECT_GT(total.early_hits, 1000u);
  EXPECT_GT(total.missed, 1000u);
}

// One layer of K groups, all routed, every read of the same length: a walk driven by a virtual clock.
struct ScriptedLayer {
  uint32_t groups, depth, banks;
  uint64_t read_time;              // L
  uint64_t routing_time;           // T_ne
  std::vector<uint64_t> run_time;  // X_k

  // f_K by eq. 5:  a_k = max(d_{k-q}, f_{k-b}),  d_k = a_k + L,  s_k = max(d_k, T_ne, f_{k-1}),  f_k = s_k + X_k.
  uint64_t ByEquation() const {
    std::vector<uint64_t> d(groups), f(groups);
    for (uint32_t k = 0; k < groups; ++k) {
      const uint64_t read_slot = k >= depth ? d[k - depth] : 0;
      const uint64_t bank_free = k >= banks ? f[k - banks] : 0;
      d[k] = std::max(read_slot, bank_free) + read_time;
      f[k] = std::max({d[k], routing_time, k > 0 ? f[k - 1] : 0}) + run_time[k];
    }
    return f.back();
  }

  uint64_t ByWalk() const {
    TapeWalk walk({{banks, 1, 1, groups, kPageBytes}});
    auto tape = std::make_shared<Tape>();
    tape->AppendGroups({0, kPageBytes, groups, 1}, 0, 0, 0);
    WalkOptions options;
    options.epoch = 1;
    options.early_order = tape->RoutedInOrder();
    EXPECT_TRUE(walk.Start(tape, options).ok());
    struct Read {
      uint64_t end;
      PlannedRead planned;
    };
    std::vector<Read> reads;
    uint64_t now = 0;
    uint64_t device_free = 0;
    uint32_t next_group = 0;
    uint32_t leased = IndexSet::kNone;  // the bank being executed
    bool decided = false;
    while (next_group < groups || leased != IndexSet::kNone) {
      for (auto r = reads.begin(); r != reads.end();) {
        if (r->end > now) {
          ++r;
          continue;
        }
        walk.Complete(r->planned, Status::Ok());
        r = reads.erase(r);
      }
      if (!decided && now >= routing_time) {
        decided = true;
        EXPECT_TRUE(walk.Decide(0, std::vector<uint32_t>(groups, 1)).ok());
      }
      if (leased != IndexSet::kNone && device_free <= now) {
        walk.Drop(0, leased);
        leased = IndexSet::kNone;
      }
      if (decided && leased == IndexSet::kNone && next_group < groups) {
        if (const auto bank = *walk.TryAcquire(next_group)) {
          leased = *bank;
          device_free = now + run_time[next_group++];
          continue;  // a run of no time ends now
        }
      }
      while (reads.size() < depth) {
        const auto read = walk.Next();
        if (!read) break;
        reads.push_back({now + read_time, *read});
      }
      uint64_t next = UINT64_MAX;
      for (const Read& r : reads) next = std::min(next, r.end);
      if (!decided) next = std::min(next, routing_time);
      if (leased != IndexSet::kNone) next = std::min(next, device_free);
      if (next == UINT64_MAX) break;
      now = next;
    }
    return now;
  }
};

TEST(TapeWalkModel, ScriptedLayersFinishWhenEquationFiveSays) {
  const uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto between = [&](uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random() % (high - low + 1));
  };
  for (int run = 0; run < 5000; ++run) {
    ScriptedLayer layer;
    layer.groups = between(1, 20);
    layer.depth = between(1, 5);
    layer.banks = between(1, 6);
    layer.read_time = between(1, 30);
    layer.routing_time = between(0, 100);
    for (uint32_t k = 0; k < layer.groups; ++k) layer.run_time.push_back(between(0, 40));
    ASSERT_EQ(layer.ByWalk(), layer.ByEquation()) << "seed " << seed << " run " << run;
  }
}

}  // namespace
}  // namespace estream
