// SPDX-License-Identifier: Apache-2.0
// A bar on standard error for work that is counted in bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tools/progress_line.h"

namespace estream {

// "packing  [######......]   52 %  2.1 GiB of 3.9 GiB, 0.4 GiB/s, 4.50 s left", only on a terminal. Speed and time left
// count from a phase's beginning.
class ByteProgress {
 public:
  ByteProgress();
  void Update(const std::string& phase, uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string Pace(uint64_t done, uint64_t total, double seconds) const;

  ProgressLine line_;
  std::string phase_;
  uint64_t phase_first_ = 0;  // bytes done when the phase began
  Clock::time_point phase_start_;
};

}  // namespace estream
