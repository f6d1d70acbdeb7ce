// SPDX-License-Identifier: Apache-2.0
// A parallel loop over independent items on a fixed set of threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace estream {

// A non-owning reference to a callable (thread, item): what a parallel loop runs, without allocating.
class LoopBody {
 public:
  template <class F>
  LoopBody(const F& f)  // NOLINT(google-explicit-constructor)
      : object_(&f),
        call_([](const void* o, uint32_t thread, uint64_t item) { (*static_cast<const F*>(o))(thread, item); }) {}
  void operator()(uint32_t thread, uint64_t item) const { call_(object_, thread, item); }

 private:
  const void* object_;
  void (*call_)(const void*, uint32_t, uint64_t);
};

// Invariant: between calls of Run every worker waits. Workers spin for at most 50 us before they block, since on two
// cores a spinning worker takes the core that the loader needs.
class ThreadPool {
 public:
  // `threads` >= 1 counts the calling thread: a pool of 1 starts none.
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Replaces `for (item = 0; item < items; ++item) body(thread, item);` with thread in [0, threads()). Each thread
  // takes its share of neighbouring items in ascending order, the same in every loop of as many items, so that what it
  // wrote in one loop is in its own cache in the next; done with it, it takes items off the ends of the others' shares.
  // Results must not depend on which thread takes which.
  //
  // Threads: one caller at a time; the caller works too and returns when all items are done. Not reentrant.
  // Pre:     items < 2^32.
  // Cost:    one atomic per item; no allocation.
  void Run(uint64_t items, LoopBody body);

  // The same with all items handed out in ascending order, whichever thread comes: for items that wait for earlier
  // ones, or that storage likes in order.
  void RunInOrder(uint64_t items, LoopBody body);

  uint32_t threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

  // The first item of the share that `thread` of `threads` has in Run; `items` for thread == threads.
  static uint64_t ShareBegin(uint64_t items, uint32_t thread, uint32_t threads) { return items * thread / threads; }

 private:
  // Items [begin, end) that nobody has taken: begin in the lower half, end in the upper.
  struct alignas(64) Share {
    std::atomic<uint64_t> range{0};
  };

  void StartRound();
  void AwaitWorkers();
  void Work(uint32_t thread);
  void AwaitRound(uint64_t seen);
  void TakeItems(uint32_t thread);

  // A cache line that changes hands costs as much as a small item: lines by who writes them in a round.
  //
  // The caller, right before round_ advances, since workers look at it all the time.
  alignas(64) std::atomic<uint64_t> round_{0};
  const LoopBody* body_ = nullptr;  // null: workers end
  std::atomic<bool> caller_sleeps_{false};
  // Workers; the caller beforehand.
  alignas(64) std::atomic<uint32_t> working_{0};
  std::atomic<uint32_t> asleep_{0};
  // Whoever blocks, or wakes who does.
  alignas(64) std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;

  std::vector<Share> shares_;  // of each thread
  std::vector<std::thread> workers_;
};

// The number of processors this process may use (its affinity mask), at least 1.
uint32_t UsableProcessors();

}  // namespace estream
