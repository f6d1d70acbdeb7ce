// SPDX-License-Identifier: Apache-2.0
// Gated short convolution, residual included, in blocks of tokens.
#pragma once

#include "device/bound_call.h"
#include "device/cpu/panel_product.h"

namespace estream {

class ShortConvOp {
 public:
  ShortConvOp(const ShortConvSpec& spec, const Capacity& capacity, Activations activations, ScratchPlan* plan);
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  // Rows of the output whose tokens lie in a block of tokens.
  struct Block {
    uint32_t first_token;
    uint32_t tokens;
    uint32_t first_row;
    uint32_t rows;
  };

  void ProjectInput(const CpuContext& context, const BoundBlockCall& call, const Block& block) const;
  void Convolve(const CpuContext& context, const BoundBlockCall& call, const Block& block) const;
  void KeepHistory(const CpuContext& context, const Block& block) const;

  ShortConvSpec spec_;
  uint64_t hidden_stride_;
  ScratchArray<float> normed_;     // h [tokens, hidden], then the gated sums [rows, hidden]
  ScratchArray<float> projected_;  // b, c, u [tokens, 3 * hidden]
  ScratchArray<float> products_;   // b ⊙ u [taps - 1 + tokens, hidden]: the end of the block before, then this block
  ProductInput input_;             // of in_proj
  ProductInput gated_;             // of out_proj
  PanelScratch panels_;
};

}  // namespace estream
