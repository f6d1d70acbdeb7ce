// SPDX-License-Identifier: Apache-2.0
// A record file that is read no faster than a rate: storage is left to others, or a slower one is imitated.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "residency/record_file.h"

namespace estream {

// Where a rated file takes its time from; tests put their own in.
struct RateClock {
  std::function<uint64_t()> now_ns;
  std::function<void(uint64_t)> sleep_until_ns;

  static RateClock Steady();
};

// `file` behind a pipe of `bytes_per_s`: reads pass through it one after the other, in the order in which they begin,
// and none ends before all its bytes have passed. It has no descriptor, since the kernel would not wait.
//
// Pre: bytes_per_s > 0.
std::shared_ptr<RecordFile> MakeRatedFile(std::shared_ptr<RecordFile> file, uint64_t bytes_per_s,
                                          RateClock clock = RateClock::Steady());

}  // namespace estream
