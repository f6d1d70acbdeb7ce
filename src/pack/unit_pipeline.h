// SPDX-License-Identifier: Apache-2.0
// One walk over the bytes of a pack: filled on many threads, hashed in file order, handed on on many threads.
//
// Packing fills by encoding and hands on to the file; verifying fills by reading and hands on to nobody. A window is a
// few MiB of one region; it ends at a unit's end unless the unit is longer than a window.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "estream/status.h"
#include "pack/hash128.h"
#include "pack/pack_layout.h"

namespace estream {

struct PackWindow {
  uint32_t region = 0;  // index
  uint64_t first = 0;   // in the region
  uint64_t bytes = 0;
};

// Windows from the beginning of `first_unit` to the end of the pack, at most `max_bytes` each.
std::vector<PackWindow> CutWindows(const std::vector<PackRegion>& regions, uint64_t first_unit, uint64_t max_bytes);

struct UnitPipeline {
  const std::vector<PackRegion>& regions;
  uint64_t first_unit = 0;
  uint32_t threads = 1;  // those that fill; more than processors, since they also wait for storage

  // Makes the bytes of a window. Threads: any, `thread` < threads, one window at a time each.
  std::function<Status(uint32_t thread, const PackWindow& window, std::span<std::byte> out)> fill = nullptr;
  // Takes the hash of a unit, in ascending order; false ends the walk early and well. Threads: one at a time.
  std::function<bool(uint64_t unit, const Hash128& hash)> on_unit = nullptr;
  // Takes the bytes of a window. Threads: any. May be empty.
  std::function<Status(const PackWindow& window, std::span<const std::byte> bytes)> hand_on = nullptr;
  // Called after each window in file order with its bytes. Threads: one at a time. May be empty.
  std::function<void(uint64_t bytes)> on_progress = nullptr;
  // When it becomes true the walk ends with Cancelled. May be null.
  const std::atomic<bool>* cancel = nullptr;

  // Errors: the first in file order of fill, or one of hand_on; Cancelled; OverBudget. When it returns, nothing runs.
  // Cost:   memory for two windows a thread (one here, one in what fills), 64 MiB in all or less.
  Status Run() const;
};

// Bytes a window for `threads` threads, so that all of them together stay inside the bound above.
uint64_t WindowBytes(uint32_t threads);

// The number of threads to give a pipeline that may use `processors` (0: as many as this process has).
uint32_t PipelineThreads(uint32_t processors);

}  // namespace estream
