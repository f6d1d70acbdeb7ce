// SPDX-License-Identifier: Apache-2.0
// Redrawing one line.
#include "tools/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace estream {

ProgressLine::ProgressLine(bool enabled) : enabled_(enabled), next_(Clock::now() + std::chrono::seconds(1)) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Show(const std::string& line) {
  next_ = Clock::now() + std::chrono::milliseconds(100);
  shown_ = true;
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  std::fflush(stderr);
}

std::string ProgressBar(double share) {
  constexpr size_t kWidth = 24;  // characters
  const auto filled = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * kWidth);
  return fmt::format("[{:#<{}}{:.<{}}]  {:3.0f} %", "", filled, "", kWidth - filled, share * 100);
}

}  // namespace estream
