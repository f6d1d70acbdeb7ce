// SPDX-License-Identifier: Apache-2.0
// The blocks that families are made of: found in the file, checked, laid into the layer's record.
#pragma once

#include "estream/status.h"
#include "family/plan_builder.h"

namespace estream {

// How a family's self-attention differs from another's.
struct SelfAttentionRules {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  float epsilon = 0;
  QkNorm qk_norm = QkNorm::kNone;
  RopeSpec rope;
};

// Head counts, head width, rotation and epsilon from the usual keys: head_count, head_count_kv, key_length (default
// width / heads, must equal value_length), rope.dimension_count (default and only choice: the head), rope.freq_base,
// rope.scaling (none or linear).
// Errors: Corrupt for sizes that do not fit each other; Unsupported for other kinds of scaling.
Result<SelfAttentionRules> ReadSelfAttention(const PlanBuilder& build, uint32_t hidden, float default_rope_base);

// attn_norm, attn_q, attn_k, attn_v (or attn_qkv), attn_output, and the norms of q and k.
Status AddSelfAttention(const PlanBuilder& build, uint32_t index, const SelfAttentionRules& rules, uint32_t hidden,
                        RecordLayout* record, LayerPlan* layer);

struct RouterRules {
  Gating gating = Gating::kSoftmax;
  bool renormalize = false;
  float scale = 1;
  float epsilon = 0;
  bool bias = false;  // exp_probs_b.bias, for selection only
};

// expert_gating_func (1 softmax, 2 sigmoid) when the file has it; expert_weights_scale, where absent or 0 means 1;
// expert_group_count above 1 is refused.
Status ReadRouterKeys(const PlanBuilder& build, RouterRules* rules);

// ffn_norm and ffn_gate_inp, and the experts of layer `index`: a sparse layer.
Status AddSparseFfn(const PlanBuilder& build, uint32_t index, const RouterRules& rules, uint64_t ffn, ModelPlan* plan,
                    RecordLayout* record, LayerPlan* layer);

// ffn_norm, ffn_gate, ffn_up, ffn_down: a dense layer.
Status AddDenseFfn(const PlanBuilder& build, uint32_t index, uint32_t ffn, float epsilon, uint32_t hidden,
                   RecordLayout* record, LayerPlan* layer);

// ffn_gate_shexp and so on: shared experts as one block of `ffn` width beside the routed ones.
Status AddSharedExperts(const PlanBuilder& build, uint32_t index, uint32_t ffn, uint32_t hidden, RecordLayout* record,
                        LayerPlan* layer);

// Every layer alike: self-attention, then routed experts of `ffn` width.
Status AddUniformLayers(const PlanBuilder& build, const SelfAttentionRules& attention, const RouterRules& router,
                        uint64_t ffn, ModelPlan* plan);

}  // namespace estream
