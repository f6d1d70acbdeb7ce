// SPDX-License-Identifier: Apache-2.0
// Qwen3 MoE: grouped queries, heads wider than width / heads, RMS norm of q and k per head, renormalised softmax
// router.
#include "base/macros.h"
#include "family/block_plans.h"
#include "family/families.h"

namespace estream {

Result<ModelPlan> PlanQwen3Moe(const PlanBuilder& build) {
  ModelPlan plan;
  ES_RETURN_IF_ERROR(build.ReadSizes(&plan));
  ES_ASSIGN_OR_RETURN(SelfAttentionRules attention, ReadSelfAttention(build, plan.hidden, 1000000.0F));
  ES_ASSIGN_OR_RETURN(attention.kv_heads, build.UintOr("attention.head_count_kv", attention.heads, 1, attention.heads));
  attention.qk_norm = QkNorm::kPerHead;
  ES_ASSIGN_OR_RETURN(const uint32_t ffn, build.Uint("expert_feed_forward_length", 1, kMaxWidth));
  RouterRules router;
  router.epsilon = attention.epsilon;
  router.renormalize = true;  // no key says so; the model was trained with it
  ES_RETURN_IF_ERROR(ReadRouterKeys(build, &router));
  ES_RETURN_IF_ERROR(AddUniformLayers(build, attention, router, ffn, &plan));
  ES_RETURN_IF_ERROR(build.AddEnds("output_norm.weight", attention.epsilon, /*tied_head=*/true, &plan));
  return plan;
}

}  // namespace estream
