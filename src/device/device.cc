// SPDX-License-Identifier: Apache-2.0
// The devices this build has, by name.
#include "device/device.h"

#include <fmt/format.h>

#include "device/cpu/cpu_device.h"
#include "device/reference/reference_device.h"

namespace estream {

Result<std::unique_ptr<Device>> MakeDevice(const DeviceOptions& options) {
  if (options.name == "cpu") return MakeCpuDevice(options);
  if (options.name == "reference") return MakeReferenceDevice(options);
  return Status::InvalidArgument(fmt::format("unknown device \"{:.40}\"; known: cpu, reference", options.name));
}

}  // namespace estream
