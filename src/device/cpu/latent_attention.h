// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention of one sequence, residual included, in blocks of tokens.
#pragma once

#include <vector>

#include "device/bound_call.h"
#include "device/cpu/attend_rows.h"
#include "device/cpu/panel_product.h"

namespace estream {

// Keys and values are expanded from the latents once a token and kept for the call; attention is then that of heads
// with keys of their own. The other form, which folds W_b into the queries, multiplies four times as much in a prefill.
class LatentAttentionOp {
 public:
  LatentAttentionOp(const LatentAttentionSpec& spec, const Capacity& capacity, Activations activations,
                    ScratchPlan* plan);
  Status Run(const CpuContext& context, const BoundBlockCall& call) const;

 private:
  struct Rows {
    const BoundBlockCall* call;
    bool all_tokens;  // rows count tokens (keys and values); otherwise rows of the output
    uint32_t first;
    uint32_t count;

    uint32_t position(uint32_t r) const { return all_tokens ? first + r : call->row_id(first + r); }
  };

  ProductRows NormInput(const CpuContext& context, const Rows& rows) const;
  void ProjectLatents(const CpuContext& context, const Rows& rows, const ProductRows& h) const;
  void StoreFused(const CpuContext& context, const Rows& rows, const KeyValue& kv) const;
  void StoreSplit(const CpuContext& context, const Rows& rows, const KeyValue& kv) const;
  void ExpandKeys(const CpuContext& context, uint32_t thread, const Rows& rows, uint32_t head) const;
  void StoreRotated(const CpuContext& context, const Rows& rows, const KeyValue& kv) const;
  void AttendRows(const CpuContext& context, const Rows& rows, const ProductRows& h, const KeyValue& kv) const;
  void Rotate(const CpuContext& context, uint32_t thread, uint32_t position, float* x, uint32_t heads) const;

  LatentAttentionSpec spec_;
  uint64_t hidden_stride_;
  uint64_t query_stride_;
  uint64_t latent_stride_;
  uint64_t expanded_stride_;
  uint64_t padded_nope_;             // columns of the product that expands keys, a multiple of 16
  std::vector<double> frequencies_;  // of the rotation's pairs
  ScratchArray<float> normed_;       // h [rows, hidden]
  ScratchArray<float> queries_;      // [rows, heads * key_dim]
  ScratchArray<float> latents_;      // c, then the rotated key part [rows, latent + rope.dims]
  ScratchArray<float> expanded_;     // keys and values before they are stored; what was attended
  KeyValuePlan key_value_;
  ScratchArray<float> angles_;       // cos, sin [2 * pairs]
  ScratchArray<float> key_panel_;    // split files: a decoded panel of k_b [nope, 32]
  ScratchArray<float> key_weights_;  // and turned around [32, padded_nope]
  ScratchArray<float> key_rows_;     // the keys of one head [rows, padded_nope]
  AttendPlan attend_;
  ProductInput input_;         // of q and kv_a
  ProductInput latent_input_;  // of kv_b or v_b
  ProductInput attended_;      // of the output
  PanelScratch panels_;
};

}  // namespace estream
