// SPDX-License-Identifier: Apache-2.0
// Redrawing one line.
#include "tools/progress.h"

#include <fmt/format.h>

#include <cstdio>

#include "tools/terminal.h"

namespace estream {

Progress::Progress(size_t total)
    : total_(total),
      enabled_(IsTerminal(stderr) && !IsTerminal(stdout)),
      next_(Clock::now() + std::chrono::seconds(1)) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::Update(size_t done) {
  if (!enabled_ || Clock::now() < next_) return;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  shown_ = true;
  const std::string line = fmt::format("\r{}/{}", done, total_);
  std::fputs(line.c_str(), stderr);
}

}  // namespace estream
