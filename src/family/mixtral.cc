// SPDX-License-Identifier: Apache-2.0
// Mixtral (architecture "llama" with experts): grouped queries, interleaved rotation, renormalised softmax router.
#include "base/macros.h"
#include "family/block_plans.h"
#include "family/families.h"

namespace estream {

Result<ModelPlan> PlanMixtral(const PlanBuilder& build) {
  ModelPlan plan;
  ES_RETURN_IF_ERROR(build.ReadSizes(&plan));
  ES_ASSIGN_OR_RETURN(SelfAttentionRules attention, ReadSelfAttention(build, plan.hidden, 10000.0F));
  ES_ASSIGN_OR_RETURN(attention.kv_heads, build.UintOr("attention.head_count_kv", attention.heads, 1, attention.heads));
  attention.rope.style = RopeStyle::kAdjacent;
  ES_ASSIGN_OR_RETURN(const uint32_t ffn, build.Uint("feed_forward_length", 1, kMaxWidth));
  RouterRules router;
  router.epsilon = attention.epsilon;
  router.renormalize = true;
  ES_RETURN_IF_ERROR(ReadRouterKeys(build, &router));
  ES_RETURN_IF_ERROR(AddUniformLayers(build, attention, router, ffn, &plan));
  ES_RETURN_IF_ERROR(build.AddEnds("output_norm.weight", attention.epsilon, /*tied_head=*/true, &plan));
  return plan;
}

}  // namespace estream
