// SPDX-License-Identifier: Apache-2.0
// Blocks without matrices: embedding and norm.
#pragma once

#include "device/bound_call.h"
#include "device/cpu/cpu_context.h"
#include "device/cpu/scratch.h"

namespace estream {

// Rows of an embedding table, dequantised.
class EmbeddingOp {
 public:
  EmbeddingOp(const EmbeddingSpec& spec, const Capacity&, ScratchPlan*) : spec_(spec) {}
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  EmbeddingSpec spec_;
};

// RMS norm of rows.
class NormOp {
 public:
  NormOp(const NormSpec& spec, const Capacity&, ScratchPlan*) : spec_(spec) {}
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  NormSpec spec_;
};

}  // namespace estream
