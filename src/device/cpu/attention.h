// SPDX-License-Identifier: Apache-2.0
// Causal self-attention of one sequence, residual included, in blocks of tokens.
#pragma once

#include <vector>

#include "device/bound_call.h"
#include "device/cpu/attend_rows.h"
#include "device/cpu/panel_product.h"

namespace estream {

// Keys and values span all tokens of the call; everything else spans one block of kRowBlock rows.
class AttentionOp {
 public:
  AttentionOp(const AttentionSpec& spec, const Capacity& capacity, Activations activations, ScratchPlan* plan);
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  // A block of rows of a call, and where its data is.
  struct Rows {
    const BoundBlockCall* call;
    bool all_tokens;  // rows count tokens (keys and values); otherwise rows of the output
    uint32_t first;
    uint32_t count;

    uint32_t position(uint32_t r) const { return all_tokens ? first + r : call->row_id(first + r); }
  };

  ProductRows NormInput(const CpuContext& context, const Rows& rows) const;
  void NormAndRotate(const CpuContext& context, const Rows& rows, const VectorSpec& norm, uint32_t heads) const;
  void StoreKeyValue(const CpuContext& context, const Rows& rows, const ProductRows& h, const KeyValue& kv) const;
  void AttendRows(const CpuContext& context, const Rows& rows, const ProductRows& h, const KeyValue& kv) const;
  void ProjectOutput(const CpuContext& context, const Rows& rows) const;

  AttentionSpec spec_;
  uint64_t hidden_stride_;
  uint64_t heads_stride_;
  std::vector<double> frequencies_;  // of the rotation's pairs
  ScratchArray<float> normed_;       // h [rows, hidden]
  ScratchArray<float> projected_;    // k, v, then q, which attention overwrites [rows, heads * head_dim]
  KeyValuePlan key_value_;
  ScratchArray<float> angles_;  // cos, sin [2 * pairs]
  AttendPlan attend_;
  ProductInput input_;     // of q, k and v
  ProductInput attended_;  // of the output
  PanelScratch panels_;
};

}  // namespace estream
