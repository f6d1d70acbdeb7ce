// SPDX-License-Identifier: Apache-2.0
// How fast a pack is read: L by size and depth, with the engine that streams it.                       (§3.4, eq. 7)
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "estream/status.h"
#include "pack/pack_file.h"
#include "pipeline/service_profile.h"
#include "residency/read_engine.h"

namespace estream {

struct ReadMeasureOptions {
  ReadEngineOptions::Kind engine = ReadEngineOptions::Kind::kAuto;
  std::vector<uint32_t> group_sizes;
  std::vector<uint32_t> depths;          // ascending
  double seconds = 0.03;                 // a point and round at least; large reads take longer
  std::function<void(double)> progress;  // share done; may be empty
  const std::atomic<bool>* cancel = nullptr;
};

// Reads groups of the experts of `plan`'s sparse layers one behind the other: every size and depth in two rounds, of
// which the faster counts. What one buffer cannot hold, or what would move a gigabyte at once, is left out: ReadNs is
// proportional there.
//
// Errors: Io, Corrupt, Cancelled.
Result<std::vector<ReadTime>> MeasureReads(const PackFile& pack, const ModelPlan& plan,
                                           const ReadMeasureOptions& options);

}  // namespace estream
