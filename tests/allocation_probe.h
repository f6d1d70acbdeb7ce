// SPDX-License-Identifier: Apache-2.0
// The largest single allocation of a test program, for programs that replace operator new
// (src/format/allocation_probe_test.cc).
#pragma once

#include <cstddef>

namespace estream {

// Forgets what was allocated before.
void ResetLargestAllocation();
// Bytes of the largest operator new since the last reset, by any thread.
size_t LargestAllocation();

}  // namespace estream
