// SPDX-License-Identifier: Apache-2.0
// Scores experts and keeps the top-k of every row.
#pragma once

#include "device/bound_call.h"
#include "device/cpu/cpu_context.h"
#include "device/cpu/scratch.h"

namespace estream {

class RouterOp {
 public:
  RouterOp(const RouterSpec& spec, const Capacity& capacity, ScratchPlan* plan);

  // Errors: Device, naming the first row with a logit that is not finite.
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  bool Choose(float* p, float* scores, uint32_t* chosen, const float* bias, uint32_t row, Route* routes) const;

  RouterSpec spec_;
  ScratchArray<float> logits_;     // [rows at once, experts], then probabilities
  ScratchArray<float> scores_;     // [experts]
  ScratchArray<uint32_t> chosen_;  // [top_k]
};

}  // namespace estream
