// SPDX-License-Identifier: Apache-2.0
// Scratch memory of operators: laid out when a graph is built, one arena for all graphs since calls run one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"

namespace estream {

// An array inside the arena, or one array for each thread.
template <class T>
struct ScratchArray {
  uint64_t offset = 0;
  uint64_t thread_stride = 0;  // bytes from one thread's array to the next; 0: shared by all

  T* at(std::byte* arena, uint32_t thread = 0) const {
    return reinterpret_cast<T*>(arena + offset + thread * thread_stride);
  }
};

// Lays arrays out one behind the other, each on cache lines of its own. What is in them lasts until a call of another
// graph.
class ScratchPlan {
 public:
  explicit ScratchPlan(uint32_t threads) : threads_(threads) {}

  // `count` values of T that all threads share.
  template <class T>
  ScratchArray<T> Shared(uint64_t count) {
    return {Take(count * sizeof(T)), 0};
  }

  // `count` values of T for each thread.
  template <class T>
  ScratchArray<T> PerThread(uint64_t count) {
    const uint64_t stride = AlignUp(count * sizeof(T), kLine);
    return {Take(stride * threads_), stride};
  }

  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kLine = 64;

  uint64_t Take(uint64_t bytes) {
    const uint64_t offset = bytes_;
    bytes_ = AlignUp(bytes_ + bytes, kLine);
    return offset;
  }

  const uint32_t threads_;
  uint64_t bytes_ = 0;
};

}  // namespace estream
