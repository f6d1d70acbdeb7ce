// SPDX-License-Identifier: Apache-2.0
// The CPU device: SIMD kernels on a pool of threads, activations as int8 or floats.
#pragma once

#include <memory>

#include "device/device.h"

namespace estream {

// Runs every spec of graph/ on the host's processors; a call is complete when Submit returns. Bits of a row depend
// on `activations`, but not on threads, capacity, or the rows that share a call.
//
// Errors: InvalidArgument for more threads than 256.
Result<std::unique_ptr<Device>> MakeCpuDevice(const DeviceOptions& options, Activations activations);

}  // namespace estream
