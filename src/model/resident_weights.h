// SPDX-License-Identifier: Apache-2.0
// All weights of a model in device memory: block records, experts, head.
#pragma once

#include <vector>

#include "device/device.h"
#include "estream/status.h"
#include "family/model_plan.h"
#include "family/record_source.h"

namespace estream {

// Where block records lie on the device.
struct BlockWeights {
  std::vector<BufferRef> layers;
  BufferRef final_norm;
  BufferRef head;
};

// Loads the block record of every layer, the final norm and the head into one buffer.
// Errors: OverBudget; what the source returns.
Result<BlockWeights> LoadBlocks(const ModelPlan& plan, RecordSource* source, Device* device);

// Loads every expert of every sparse layer; slot e of the i-th one begins at result[i] + e * plan.expert_stride.
// Errors: as LoadBlocks.
Result<std::vector<BufferRef>> LoadExperts(const ModelPlan& plan, RecordSource* source, Device* device);

}  // namespace estream
