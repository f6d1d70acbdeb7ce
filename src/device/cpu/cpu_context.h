// SPDX-License-Identifier: Apache-2.0
// What an operator runs with: threads and scratch memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"
#include "base/thread_pool.h"
#include "base/trace.h"

namespace estream {

struct CpuContext {
  ThreadPool* pool = nullptr;
  std::byte* scratch = nullptr;  // as laid out by the operator's ScratchPlan
  TraceRecorder* trace = nullptr;

  // Traces a part of a block until it is destroyed. Parts do not overlap.
  TraceSpan Part(const char* name) const { return TraceSpan(trace, TraceTrack::kDevice, name); }
};

// Replaces `for (row = 0; row < rows; ++row) body(thread, row);`, up to eight rows an item: one row is little work to
// hand out, but threads should end together.
template <class Body>
void ForEachRow(const CpuContext& context, uint32_t rows, const Body& body) {
  const uint32_t at_once = std::clamp<uint32_t>(rows / (4 * context.pool->threads()), 1, 8);
  context.pool->Run(CeilDiv(rows, at_once), [&](uint32_t thread, uint64_t item) {
    const auto first = static_cast<uint32_t>(item * at_once);
    for (uint32_t row = first; row < std::min(rows, first + at_once); ++row) body(thread, row);
  });
}

}  // namespace estream
