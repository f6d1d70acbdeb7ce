// SPDX-License-Identifier: Apache-2.0
// One counter hands out items; one round number starts workers. Blocking uses a mutex and condition variables, since a
// wake-up that is lost once in a million rounds is worse than one that costs a microsecond.
#include "base/thread_pool.h"

#include <sched.h>

#include <chrono>

namespace estream {
namespace {

constexpr auto kSpin = std::chrono::microseconds(50);

// Spins until `ready` or 50 us have passed; says whether it became ready.
template <class Ready>
bool SpinUntil(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(uint32_t threads) {
  for (uint32_t t = 1; t < threads; ++t) workers_.emplace_back([this, t] { Work(t); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    round_.fetch_add(1, std::memory_order_release);
  }
  start_.notify_all();
  for (auto& w : workers_) w.join();
}

void ThreadPool::Run(uint64_t items, LoopBody body) {
  if (items == 0) return;
  if (workers_.empty() || items == 1) {
    for (uint64_t i = 0; i < items; ++i) body(0, i);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    body_ = &body;
    items_ = items;
    next_.store(0, std::memory_order_relaxed);
    working_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
  }
  start_.notify_all();
  TakeItems(0);
  const auto all_done = [this] { return working_.load(std::memory_order_acquire) == 0; };
  if (!SpinUntil(all_done)) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, all_done);
  }
}

void ThreadPool::Work(uint32_t thread) {
  uint64_t seen = 0;
  while (true) {
    const auto started = [&] { return round_.load(std::memory_order_acquire) != seen; };
    if (!SpinUntil(started)) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, started);
    }
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
      seen = round_.load(std::memory_order_relaxed);
    }
    TakeItems(thread);
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }
}

void ThreadPool::TakeItems(uint32_t thread) {
  const LoopBody body = *body_;
  const uint64_t items = items_;
  for (uint64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < items;) body(thread, i);
}

uint32_t UsableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int n = CPU_COUNT(&set);
  return n > 0 ? static_cast<uint32_t>(n) : 1;
}

}  // namespace estream
