// SPDX-License-Identifier: Apache-2.0
// How long a device computes experts: X by routes, with records of the model.                                   (§3.4)
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "device/device.h"
#include "estream/status.h"
#include "family/model_plan.h"
#include "family/record_source.h"
#include "pipeline/service_profile.h"

namespace estream {

struct ExpertMeasureOptions {
  std::vector<uint32_t> routes;          // ascending
  double seconds = 0.03;                 // a point at least
  std::function<void(double)> progress;  // share done; may be empty
  const std::atomic<bool>* cancel = nullptr;
};

// Runs experts of each shape class of `plan` in turn, as many as caches do not hold.
//
// Errors: what the device or the source returns; Cancelled.
Result<std::vector<ExpertTimes>> MeasureExperts(const ModelPlan& plan, RecordSource* source, Device* device,
                                                const ExpertMeasureOptions& options);

}  // namespace estream
