// SPDX-License-Identifier: Apache-2.0
// One line, redrawn in place.
#include "tools/byte_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/report.h"
#include "tools/terminal.h"

namespace estream {
namespace {

constexpr size_t kWidth = 24;  // characters of the bar

}  // namespace

ByteProgress::ByteProgress() : enabled_(IsTerminal(stderr)), next_(Clock::now() + std::chrono::seconds(1)) {}

ByteProgress::~ByteProgress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

// ", 412.0 MiB/s, 3.20 s left"; nothing until there is something to say.
std::string ByteProgress::Pace(uint64_t done, uint64_t total, double seconds) const {
  if (seconds < 0.5 || done <= phase_first_) return "";
  const double speed = static_cast<double>(done - phase_first_) / seconds;
  return fmt::format(", {}/s, {} left", FormatBytes(static_cast<uint64_t>(speed)),
                     FormatSeconds(static_cast<double>(total - std::min(done, total)) / speed));
}

void ByteProgress::Update(const std::string& phase, uint64_t done, uint64_t total) {
  if (!enabled_) return;
  const auto now = Clock::now();
  if (phase != phase_) {
    phase_ = phase;
    phase_first_ = done;
    phase_start_ = now;
  }
  if (total == 0 || now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  shown_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<size_t>(share * kWidth);
  const std::string line = fmt::format("\r\033[K{}  [{:#<{}}{:.<{}}]  {:3.0f} %  {} of {}{}", phase, "", filled, "",
                                       kWidth - filled, share * 100, FormatBytes(done), FormatBytes(total),
                                       Pace(done, total, std::chrono::duration<double>(now - phase_start_).count()));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace estream
