// SPDX-License-Identifier: Apache-2.0
// How long the device computed: T_exec, measured where calls are submitted and waited for.                       (Fig.
// 6)
#pragma once

#include <cstdint>

#include "base/trace.h"

namespace estream {

// Spans are opened by the request thread only and do not overlap, so their sum is the length of their union.
struct ComputeClock {
  uint64_t busy_ns = 0;
  TraceRecorder* trace = nullptr;  // or none
};

// One stretch of computing, from construction to destruction.
class ComputeSpan {
 public:
  ComputeSpan(ComputeClock* clock, const char* name, uint32_t layer, uint32_t group = 0)
      : clock_(clock), name_(name), layer_(layer), group_(group), begin_ns_(NowNs()) {}
  ~ComputeSpan() {
    const uint64_t end_ns = NowNs();
    clock_->busy_ns += end_ns - begin_ns_;
    if (clock_->trace != nullptr) {
      clock_->trace->Add({TraceTrack::kCompute, name_, layer_, group_, 0, begin_ns_, end_ns});
    }
  }
  ComputeSpan(const ComputeSpan&) = delete;
  ComputeSpan& operator=(const ComputeSpan&) = delete;

 private:
  ComputeClock* const clock_;
  const char* const name_;
  const uint32_t layer_;
  const uint32_t group_;
  const uint64_t begin_ns_;
};

}  // namespace estream
