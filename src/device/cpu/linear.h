// SPDX-License-Identifier: Apache-2.0
// A plain matrix product, such as the head.
#pragma once

#include "device/bound_call.h"
#include "device/cpu/panel_product.h"

namespace estream {

class LinearOp {
 public:
  LinearOp(const LinearSpec& spec, const Capacity& capacity, Activations activations, ScratchPlan* plan);
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  LinearSpec spec_;
  ProductInput input_;
  PanelScratch panels_;
};

}  // namespace estream
