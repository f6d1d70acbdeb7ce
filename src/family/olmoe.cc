// SPDX-License-Identifier: Apache-2.0
// OLMoE: RMS norms of q and k over the full width, NeoX rotation; softmax router without renormalisation.
#include "base/macros.h"
#include "family/block_plans.h"
#include "family/families.h"

namespace estream {

Result<ModelPlan> PlanOlmoe(const PlanBuilder& build) {
  ModelPlan plan;
  ES_RETURN_IF_ERROR(build.ReadSizes(&plan));
  ES_ASSIGN_OR_RETURN(SelfAttentionRules attention, ReadSelfAttention(build, plan.hidden, 10000.0F));
  ES_ASSIGN_OR_RETURN(attention.kv_heads, build.UintOr("attention.head_count_kv", attention.heads, 1, attention.heads));
  attention.qk_norm = QkNorm::kFull;
  ES_ASSIGN_OR_RETURN(const uint32_t ffn, build.Uint("feed_forward_length", 1, kMaxWidth));
  RouterRules router;
  router.epsilon = attention.epsilon;
  router.renormalize = false;  // the probabilities as they are; they do not sum to 1
  ES_RETURN_IF_ERROR(ReadRouterKeys(build, &router));
  ES_RETURN_IF_ERROR(AddUniformLayers(build, attention, router, ffn, &plan));
  ES_RETURN_IF_ERROR(build.AddEnds("output_norm.weight", attention.epsilon, /*tied_head=*/false, &plan));
  return plan;
}

}  // namespace estream
