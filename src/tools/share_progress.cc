// SPDX-License-Identifier: Apache-2.0
// One line, redrawn in place.
#include "tools/share_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/terminal.h"

namespace estream {

ShareProgress::ShareProgress() : enabled_(IsTerminal(stderr)), next_(Clock::now() + std::chrono::seconds(1)) {}

ShareProgress::~ShareProgress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ShareProgress::Update(const std::string& phase, double share) {
  // A new phase shows at once: it may be long until its next step.
  if (!enabled_ || (Clock::now() < next_ && (phase == phase_ || !shown_))) return;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  phase_ = phase;
  shown_ = true;
  constexpr size_t kBarWidth = 24;
  const auto filled = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  const std::string line =
      fmt::format("\r\033[K{}  [{:#<{}}{:.<{}}]  {:3.0f} %", phase, "", filled, "", kBarWidth - filled, share * 100);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace estream
