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

  // Replaces `for (item = 0; item < items; ++item) body(thread, item);` with thread in [0, threads()). Items are handed
  // out in ascending order, one at a time; results must not depend on which thread takes which.
  //
  // Threads: one caller at a time; the caller works too and returns when all items are done. Not reentrant.
  // Cost:    one atomic per item; no allocation.
  void Run(uint64_t items, LoopBody body);

  uint32_t threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

 private:
  void Work(uint32_t thread);
  void TakeItems(uint32_t thread);

  // Written by Run before `round_` advances, read by workers after they see it.
  const LoopBody* body_ = nullptr;
  uint64_t items_ = 0;

  std::atomic<uint64_t> next_{0};
  std::atomic<uint32_t> working_{0};
  std::atomic<uint64_t> round_{0};
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  bool stop_ = false;  // guarded by mutex_
  std::vector<std::thread> workers_;
};

// The number of processors this process may use (its affinity mask), at least 1.
uint32_t UsableProcessors();

}  // namespace estream
