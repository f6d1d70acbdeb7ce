// SPDX-License-Identifier: Apache-2.0
// A bar on standard error for work that is counted in shares.
#pragma once

#include <chrono>
#include <string>

namespace estream {

// "reads  [######......]   52 %", at most ten times a second, only on a terminal, and only for work that takes longer
// than a second.
class ShareProgress {
 public:
  ShareProgress();
  ~ShareProgress();  // takes the line away
  ShareProgress(const ShareProgress&) = delete;
  ShareProgress& operator=(const ShareProgress&) = delete;

  void Update(const std::string& phase, double share);

 private:
  using Clock = std::chrono::steady_clock;

  const bool enabled_;
  bool shown_ = false;
  std::string phase_;
  Clock::time_point next_;  // of the next change on the screen
};

}  // namespace estream
