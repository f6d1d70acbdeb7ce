// SPDX-License-Identifier: Apache-2.0
// The scalar device: plain loops, double accumulation, one thread; the truth that every other device is tested against.
#pragma once

#include <memory>

#include "device/device.h"

namespace estream {

// Runs every spec of graph/ on formats that can be tiled. Weights are decoded exactly; sums run in double and are
// rounded to float where a buffer holds float. Slow on purpose: it is written to be read.
std::unique_ptr<Device> MakeReferenceDevice(const DeviceOptions& options);

}  // namespace estream
