// SPDX-License-Identifier: Apache-2.0
// Packing in the order of the source: tensors come as they come, every panel goes to its place.
#pragma once

#include <cstdint>

#include "estream/status.h"
#include "pack/forward_source.h"
#include "pack/pack_output.h"
#include "pack/pack_run.h"

namespace estream {

// Writes all regions of run.plan from `source`, which nothing has been read of. Hashes are not made, since records are
// not written front to back. What no tensor fills is not written: `output` must read as zero there.
//
// Progress: the position in the source.
// Errors:   Corrupt for a NaN or infinite scale or an early end; Unsupported when records use rows of one tensor that
//           overlap without being the same; Io; Cancelled.
// Cost:     holds a few MiB of rows and panels, or a vector.
Status PackForward(const PackRun& run, ForwardSource* source, PackOutput* output);

}  // namespace estream
