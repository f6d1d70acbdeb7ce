// SPDX-License-Identifier: Apache-2.0
// A range for each thread hands out items; one round number starts workers. Only who blocks, or wakes who does, takes a
// lock.
#include "base/thread_pool.h"

#include <sched.h>

#include <chrono>

#include "base/macros.h"

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

uint64_t PackRange(uint64_t begin, uint64_t end) { return begin | end << 32; }

// Takes the first item of a range, or the last; false when there is none. Relaxed, since the items' data is published
// by the round.
bool TakeItem(std::atomic<uint64_t>& range, bool first, uint64_t* item) {
  uint64_t now = range.load(std::memory_order_relaxed);
  while (true) {
    const uint64_t begin = now & UINT32_MAX, end = now >> 32;
    if (begin >= end) return false;
    *item = first ? begin : end - 1;
    const uint64_t rest = first ? PackRange(begin + 1, end) : PackRange(begin, end - 1);
    if (range.compare_exchange_weak(now, rest, std::memory_order_relaxed)) return true;
  }
}

}  // namespace

ThreadPool::ThreadPool(uint32_t threads) : shares_(threads) {
  for (uint32_t t = 1; t < threads; ++t) workers_.emplace_back([this, t] { Work(t); });
}

ThreadPool::~ThreadPool() {
  body_ = nullptr;
  StartRound();
  for (auto& w : workers_) w.join();
}

void ThreadPool::Run(uint64_t items, LoopBody body) {
  if (items == 0) return;
  if (workers_.empty() || items == 1) {
    for (uint64_t i = 0; i < items; ++i) body(0, i);
    return;
  }
  ES_CHECK(items <= UINT32_MAX);
  for (uint32_t t = 0; t < threads(); ++t) {
    const uint64_t begin = ShareBegin(items, t, threads()), end = ShareBegin(items, t + 1, threads());
    shares_[t].range.store(PackRange(begin, end), std::memory_order_relaxed);
  }
  working_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  body_ = &body;
  StartRound();
  TakeItems(0);
  AwaitWorkers();
}

void ThreadPool::RunInOrder(uint64_t items, LoopBody body) {
  std::atomic<uint64_t> next{0};
  Run(threads(), [&](uint32_t thread, uint64_t) {
    for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) body(thread, i);
  });
}

// Blocking and waking: one side says that it blocks and looks at the round once more, the other changes the round and
// looks whether anyone blocks. All of it is sequentially consistent, so one of them sees the other.
void ThreadPool::StartRound() {
  ++round_;
  if (asleep_ == 0) return;
  { const std::lock_guard lock(mutex_); }  // who has looked in vain is waiting by now
  start_.notify_all();
}

void ThreadPool::AwaitRound(uint64_t seen) {
  const auto started = [&] { return round_ != seen; };
  if (SpinUntil(started)) return;
  std::unique_lock lock(mutex_);
  ++asleep_;
  start_.wait(lock, started);
  --asleep_;
}

void ThreadPool::AwaitWorkers() {
  const auto all_done = [this] { return working_ == 0; };
  if (SpinUntil(all_done)) return;
  std::unique_lock lock(mutex_);
  caller_sleeps_.exchange(true);  // not a store, which QEMU's Arm lets the load that follows overtake
  done_.wait(lock, all_done);
  caller_sleeps_ = false;
}

void ThreadPool::Work(uint32_t thread) {
  for (uint64_t seen = 0;; ++seen) {
    AwaitRound(seen);
    if (body_ == nullptr) return;
    TakeItems(thread);
    if (--working_ > 0 || !caller_sleeps_) continue;
    { const std::lock_guard lock(mutex_); }
    done_.notify_one();
  }
}

void ThreadPool::TakeItems(uint32_t thread) {
  const LoopBody body = *body_;
  uint64_t item;
  while (TakeItem(shares_[thread].range, /*first=*/true, &item)) body(thread, item);
  for (uint32_t i = 1; i < threads(); ++i) {
    Share& other = shares_[(thread + i) % threads()];
    while (TakeItem(other.range, /*first=*/false, &item)) body(thread, item);
  }
}

uint32_t UsableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int n = CPU_COUNT(&set);
  return n > 0 ? static_cast<uint32_t>(n) : 1;
}

}  // namespace estream
