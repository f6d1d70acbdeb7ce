// SPDX-License-Identifier: Apache-2.0
// A dense feed-forward block, or shared experts: every row goes through it.
#pragma once

#include "device/bound_call.h"
#include "device/cpu/gated_ffn.h"

namespace estream {

class FfnOp {
 public:
  FfnOp(const FfnSpec& spec, const Capacity& capacity, ScratchPlan* plan)
      : spec_(spec), ffn_(spec.ffn, std::min(kRowBlock, capacity.tokens), plan) {}
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  FfnSpec spec_;
  GatedFfn ffn_;
};

}  // namespace estream
