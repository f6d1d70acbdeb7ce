// SPDX-License-Identifier: Apache-2.0
// One counter hands out items; one round number starts workers. The mutex is only for those who block: taken by all it
// was fought for in every round, and small experts lost a tenth of two threads' speed to it.
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
  stop_ = true;
  StartRound();
  for (auto& w : workers_) w.join();
}

// Either a worker sees the new round before it blocks, or it is counted here: both sides write before they look.
void ThreadPool::StartRound() {
  round_.fetch_add(1);
  if (blocked_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }  // who is counted either waits by now or will look again
  start_.notify_all();
}

void ThreadPool::Run(uint64_t items, LoopBody body) {
  if (items == 0) return;
  if (workers_.empty() || items == 1) {
    for (uint64_t i = 0; i < items; ++i) body(0, i);
    return;
  }
  body_ = &body;
  items_ = items;
  next_.store(0, std::memory_order_relaxed);
  working_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  StartRound();
  TakeItems(0);
  const auto all_done = [this] { return working_.load() == 0; };
  if (SpinUntil(all_done)) return;
  std::unique_lock lock(mutex_);
  caller_blocked_ = true;
  done_.wait(lock, all_done);
  caller_blocked_ = false;
}

void ThreadPool::Work(uint32_t thread) {
  uint64_t seen = 0;
  while (true) {
    const auto started = [&] { return round_.load() != seen; };
    if (!SpinUntil(started)) {
      std::unique_lock lock(mutex_);
      ++blocked_;
      start_.wait(lock, started);
      --blocked_;
    }
    if (stop_) return;
    ++seen;  // no round begins before all workers have ended this one
    TakeItems(thread);
    if (working_.fetch_sub(1) == 1 && caller_blocked_.load()) {
      { const std::lock_guard lock(mutex_); }
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
