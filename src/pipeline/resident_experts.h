// SPDX-License-Identifier: Apache-2.0
// The schedule without loading: every expert has its own slot for good.
#pragma once

#include <memory>
#include <vector>

#include "pipeline/compute_clock.h"
#include "pipeline/expert_stream.h"

namespace estream {

// Where the experts of a sparse layer lie: slot e of `arena` holds expert e.
struct ResidentLayer {
  uint32_t graph = 0;
  BufferRef arena;
};

struct ResidentOptions {
  uint32_t expert_count = 0;
  uint64_t slot_stride = 0;
  uint32_t max_routes = 0;        // C of the graphs
  BufferRef placement;            // [expert_count] i32 holding 0, 1, 2, ...
  ComputeClock* clock = nullptr;  // outlives the stream
};

// A layer's routes go to the device as they are, cut into calls of at most max_routes.
std::unique_ptr<ExpertStream> MakeResidentExperts(Device* device, std::vector<ResidentLayer> layers,
                                                  const ResidentOptions& options);

}  // namespace estream
