// SPDX-License-Identifier: Apache-2.0
// The graphs of a model on a device: each distinct spec built once, however many layers use it.               (§3.2)
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "device/device.h"
#include "estream/status.h"
#include "family/model_plan.h"

namespace estream {

struct GraphSet {
  struct Layer {
    uint32_t mixer = 0;
    uint32_t ffn_norm = 0;  // dense layers
    uint32_t ffn = 0;       // dense layers, and sparse ones with shared experts
    uint32_t router = 0;    // sparse layers
    uint32_t experts = 0;
  };

  uint32_t embedding = 0;
  std::vector<Layer> layers;
  uint32_t final_norm = 0;
  uint32_t head = 0;
  uint32_t built = 0;  // distinct graphs

  // Errors: what Device::Build returns.
  static Result<GraphSet> Build(const ModelPlan& plan, const Capacity& capacity, Device* device);
};

}  // namespace estream
