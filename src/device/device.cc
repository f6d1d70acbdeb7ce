// SPDX-License-Identifier: Apache-2.0
// The devices this build has, by name.
#include "device/device.h"

#include <fmt/format.h>

#include "device/cpu/cpu_device.h"
#include "device/reference/reference_device.h"

namespace estream {

Result<std::unique_ptr<Device>> MakeDevice(const DeviceOptions& options) {
  if (!options.activations.empty() && options.activations != "f32" && options.activations != "q8") {
    return Status::InvalidArgument(fmt::format("unknown activations \"{:.40}\"; known: f32, q8", options.activations));
  }
  if (options.name == "cpu") {
    return MakeCpuDevice(options, options.activations == "f32" ? Activations::kF32 : Activations::kQ8);
  }
  if (options.name == "reference") {
    if (options.activations == "q8") {
      return Status::InvalidArgument("the reference device computes exactly: activations q8 are for the device cpu");
    }
    return MakeReferenceDevice(options);
  }
  return Status::InvalidArgument(fmt::format("unknown device \"{:.40}\"; known: cpu, reference", options.name));
}

}  // namespace estream
