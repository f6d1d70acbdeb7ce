// SPDX-License-Identifier: Apache-2.0
// One line on standard error, redrawn in place while a long piece of work runs.
#pragma once

#include <chrono>
#include <string>

namespace estream {

// Shows nothing before the second second of its life, and then at most ten times a second.
class ProgressLine {
 public:
  // Pass false where standard error is no terminal: then nothing is ever due.
  explicit ProgressLine(bool enabled);
  ~ProgressLine();  // takes the line away
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool enabled() const { return enabled_; }
  bool shown() const { return shown_; }
  bool Due() const { return enabled_ && Clock::now() >= next_; }
  void Show(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;

  const bool enabled_;
  bool shown_ = false;
  Clock::time_point next_;  // of the next change on the screen
};

// "[######......]   52 %"
std::string ProgressBar(double share);

}  // namespace estream
