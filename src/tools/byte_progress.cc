// SPDX-License-Identifier: Apache-2.0
// One line, redrawn in place.
#include "tools/byte_progress.h"

#include <fmt/format.h>

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

void ByteProgress::Update(const std::string& phase, uint64_t done, uint64_t total) {
  const auto now = Clock::now();
  if (!enabled_ || total == 0 || now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  shown_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<size_t>(share * kWidth);
  std::fputs(fmt::format("\r\033[K{}  [{:#<{}}{:.<{}}]  {:3.0f} %  {} of {}", phase, "", filled, "", kWidth - filled,
                         share * 100, FormatBytes(done), FormatBytes(total))
                 .c_str(),
             stderr);
  std::fflush(stderr);
}

}  // namespace estream
