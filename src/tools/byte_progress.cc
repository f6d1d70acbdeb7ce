// SPDX-License-Identifier: Apache-2.0
// A bar with bytes, speed and the time that is left.
#include "tools/byte_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/report.h"
#include "tools/terminal.h"

namespace estream {

ByteProgress::ByteProgress() : line_(IsTerminal(stderr)) {}

// ", 412.0 MiB/s, 3.20 s left"; nothing until there is something to say.
std::string ByteProgress::Pace(uint64_t done, uint64_t total, double seconds) const {
  if (seconds < 0.5 || done <= phase_first_) return "";
  const double speed = static_cast<double>(done - phase_first_) / seconds;
  return fmt::format(", {}/s, {} left", FormatBytes(static_cast<uint64_t>(speed)),
                     FormatSeconds(static_cast<double>(total - std::min(done, total)) / speed));
}

void ByteProgress::Update(const std::string& phase, uint64_t done, uint64_t total) {
  if (!line_.enabled()) return;
  const auto now = Clock::now();
  if (phase != phase_) {
    phase_ = phase;
    phase_first_ = done;
    phase_start_ = now;
  }
  if (total == 0 || !line_.Due()) return;
  line_.Show(fmt::format("{}  {}  {} of {}{}", phase,
                         ProgressBar(static_cast<double>(done) / static_cast<double>(total)), FormatBytes(done),
                         FormatBytes(total),
                         Pace(done, total, std::chrono::duration<double>(now - phase_start_).count())));
}

}  // namespace estream
