// SPDX-License-Identifier: Apache-2.0
// A bar on standard error for work that is counted in bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace estream {

// "packing  [######......]   52 %  2.1 GiB of 3.9 GiB, 0.4 GiB/s, 4.50 s left", at most ten times a second, only on a
// terminal, and only for work that takes longer than a second. Speed and time left count from a phase's beginning.
class ByteProgress {
 public:
  ByteProgress();
  ~ByteProgress();  // takes the line away
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  void Update(const std::string& phase, uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string Pace(uint64_t done, uint64_t total, double seconds) const;

  const bool enabled_;
  bool shown_ = false;
  std::string phase_;
  uint64_t phase_first_ = 0;  // bytes done when the phase began
  Clock::time_point phase_start_;
  Clock::time_point next_;  // of the next change on the screen
};

}  // namespace estream
