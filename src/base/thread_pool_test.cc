// SPDX-License-Identifier: Apache-2.0
// A parallel loop does what the serial loop does, again and again.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/checked_math.h"

namespace estream {
namespace {

TEST(ThreadPool, EveryItemRunsExactlyOnce) {
  for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const uint64_t items : {0u, 1u, 2u, 31u, 1000u}) {
      std::vector<std::atomic<uint32_t>> seen(items);
      pool.Run(items, [&](uint32_t thread, uint64_t item) {
        EXPECT_LT(thread, threads);
        seen[item].fetch_add(1);
      });
      for (const auto& s : seen) ASSERT_EQ(s.load(), 1u);
    }
  }
}

TEST(ThreadPool, SharesAreContiguousAndCoverAllItems) {
  for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
    for (const uint64_t items : {0u, 1u, 7u, 1000u}) {
      EXPECT_EQ(ThreadPool::ShareBegin(items, 0, threads), 0u);
      EXPECT_EQ(ThreadPool::ShareBegin(items, threads, threads), items);
      for (uint32_t t = 0; t < threads; ++t) {
        const uint64_t size = ThreadPool::ShareBegin(items, t + 1, threads) - ThreadPool::ShareBegin(items, t, threads);
        EXPECT_GE(size, items / threads);
        EXPECT_LE(size, CeilDiv(items, threads));
      }
    }
  }
}

// One thread waits in its first item until all others are done: these take the rest of its share, from the end.
TEST(ThreadPool, WhoIsDoneHelpsFromTheEnd) {
  constexpr uint32_t kThreads = 3;
  constexpr uint64_t kShare = 10, kItems = kThreads * kShare;
  ThreadPool pool(kThreads);
  for (int round = 0; round < 100; ++round) {
    std::vector<uint64_t> taken[kThreads];
    std::atomic<uint64_t> done = 0;
    pool.Run(kItems, [&](uint32_t thread, uint64_t item) {
      taken[thread].push_back(item);
      while (item == 0 && done < kItems - 1) std::this_thread::yield();
      ++done;
    });
    ASSERT_EQ(done, kItems);
    for (uint64_t t = 0; t < kThreads; ++t) {
      for (size_t i = 1; i < taken[t].size(); ++i) {
        const uint64_t before = taken[t][i - 1], now = taken[t][i];
        const uint64_t share = now / kShare;
        EXPECT_TRUE(share != before / kShare || (share == t ? now > before : now < before)) << before << ' ' << now;
        EXPECT_TRUE(share != t || before / kShare == t) << now;  // one's own come first
      }
    }
  }
}

// No item is begun before the ones before it are: what waits for an earlier one waits for a thread that runs.
TEST(ThreadPool, InOrderItemsMayWaitForEarlierOnes) {
  for (const uint32_t threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    std::atomic<uint64_t> done = 0;
    std::vector<uint32_t> seen(200, 0);
    pool.RunInOrder(seen.size(), [&](uint32_t, uint64_t item) {
      EXPECT_LT(item, done + threads);
      while (done < item) std::this_thread::yield();
      ++seen[item];
      ++done;
    });
    EXPECT_EQ(seen, std::vector<uint32_t>(200, 1));
  }
}

TEST(ThreadPool, WritesOfOneLoopAreSeenByTheNext) {
  ThreadPool pool(4);
  std::vector<uint64_t> values(64, 0);
  for (int round = 0; round < 2000; ++round) {
    // Each item reads what another thread may have written a round before.
    pool.Run(values.size(),
             [&](uint32_t, uint64_t i) { ++values[(i + static_cast<uint64_t>(round)) % values.size()]; });
  }
  for (const uint64_t v : values) EXPECT_EQ(v, 2000u);
}

void BusyFor(std::chrono::microseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

// Pauses around the 50 us after which workers and caller stop spinning, on either side of a round.
TEST(ThreadPool, WhoBlocksIsWoken) {
  for (const uint32_t threads : {2u, 4u}) {
    ThreadPool pool(threads);
    std::mt19937 random(threads);
    for (uint64_t round = 0; round < 1000; ++round) {
      BusyFor(std::chrono::microseconds(random() % 100));
      const auto pause = std::chrono::microseconds(random() % 100);
      std::atomic<uint64_t> done = 0;
      pool.Run(3, [&](uint32_t thread, uint64_t) {
        if (thread != 0) BusyFor(pause);  // the caller waits
        ++done;
      });
      ASSERT_EQ(done, 3u);
    }
  }
}

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(3);
}

TEST(UsableProcessors, IsAtLeastOne) { EXPECT_GE(UsableProcessors(), 1u); }

}  // namespace
}  // namespace estream
