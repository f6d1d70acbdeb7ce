// SPDX-License-Identifier: Apache-2.0
// A dense feed-forward block, or shared experts: every row goes through it.
#pragma once

#include "device/bound_call.h"
#include "device/cpu/gated_ffn.h"

namespace estream {

class FfnOp {
 public:
  FfnOp(const FfnSpec& spec, const Capacity& capacity, Activations activations, ScratchPlan* plan)
      : spec_(spec),
        input_(activations, {spec.gate, spec.up}, std::min(kRowBlock, capacity.tokens), plan),
        ffn_(spec.down, std::min(kRowBlock, capacity.tokens), activations, plan) {}
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  FfnSpec spec_;
  ProductInput input_;
  GatedFfn ffn_;
};

}  // namespace estream
