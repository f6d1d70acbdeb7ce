// SPDX-License-Identifier: Apache-2.0
// A counter on standard error while a long piece of work runs.
#pragma once

#include <chrono>
#include <cstddef>

namespace estream {

// Shows "done/total" on one line, from the second second on, at most ten times a second; only on a terminal, and only
// while standard output is none (there the output itself shows how far it is).
class Progress {
 public:
  explicit Progress(size_t total);
  ~Progress();  // takes the line away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(size_t done);

 private:
  using Clock = std::chrono::steady_clock;
  const size_t total_;
  const bool enabled_;
  bool shown_ = false;
  Clock::time_point next_;  // of the next change on the screen
};

}  // namespace estream
