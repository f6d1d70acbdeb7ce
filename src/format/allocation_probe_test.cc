// SPDX-License-Identifier: Apache-2.0
// Replaces operator new in this layer's test program, to see how much a hostile file can make the reader ask for.
#include "tests/allocation_probe.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

std::atomic<size_t> largest{0};

}  // namespace

// Not inlined: where only one of the pair is, the compiler takes malloc and operator delete for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  size_t seen = largest.load(std::memory_order_relaxed);
  while (bytes > seen && !largest.compare_exchange_weak(seen, bytes, std::memory_order_relaxed)) {
  }
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

// std::stable_sort asks this one, and gives back through the plain operator delete.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  size_t seen = largest.load(std::memory_order_relaxed);
  while (bytes > seen && !largest.compare_exchange_weak(seen, bytes, std::memory_order_relaxed)) {
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace estream {

void ResetLargestAllocation() { largest = 0; }
size_t LargestAllocation() { return largest; }

TEST(AllocationProbe, SeesTheLargest) {
  ResetLargestAllocation();
  { std::vector<char> small(1000), large(123'456); }
  EXPECT_GE(LargestAllocation(), 123'456u);
  EXPECT_LT(LargestAllocation(), 200'000u);
}

}  // namespace estream
