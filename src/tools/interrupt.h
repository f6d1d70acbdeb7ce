// SPDX-License-Identifier: Apache-2.0
// ^C as a wish to stop, for work that can end well.
#pragma once

#include <atomic>

namespace estream {

// While one exists, SIGINT and SIGTERM set flag() instead of ending the process; the second one ends it after all.
// Only one at a time.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  const std::atomic<bool>* flag() const;
};

}  // namespace estream
