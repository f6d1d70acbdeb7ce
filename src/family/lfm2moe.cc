// SPDX-License-Identifier: Apache-2.0
// LFM2 MoE: a layer mixes by short convolution or by attention; sigmoid router whose bias serves selection only.
#include <fmt/format.h>

#include "base/macros.h"
#include "family/block_plans.h"
#include "family/families.h"

namespace estream {
namespace {

Status AddShortConv(const PlanBuilder& build, uint32_t index, uint32_t taps, float epsilon, uint32_t hidden,
                    RecordLayout* record, LayerPlan* layer) {
  const auto name = [&](const char* what) { return LayerTensor(index, what); };
  ES_ASSIGN_OR_RETURN(const SourceRows norm, build.Vector(name("attn_norm"), hidden));
  ES_ASSIGN_OR_RETURN(const SourceRows conv, build.FloatMatrix(name("shortconv.conv"), hidden, taps));
  ES_ASSIGN_OR_RETURN(const FoundMatrix in_proj, build.Matrix(name("shortconv.in_proj"), 3 * hidden, hidden));
  ES_ASSIGN_OR_RETURN(const FoundMatrix out_proj, build.Matrix(name("shortconv.out_proj"), hidden, hidden));
  ShortConvSpec s;
  s.hidden = hidden;
  s.taps = taps;
  s.norm_epsilon = epsilon;
  s.norm = record->AddVector(hidden, norm);
  s.conv = record->AddVector(hidden * taps, conv);
  s.in_proj = record->AddMatrix(in_proj.format, 3 * hidden, hidden, in_proj.source);
  s.out_proj = record->AddMatrix(out_proj.format, hidden, hidden, out_proj.source);
  layer->mixer = s;
  return Status::Ok();
}

}  // namespace

Result<ModelPlan> PlanLfm2Moe(const PlanBuilder& build) {
  ModelPlan plan;
  ES_RETURN_IF_ERROR(build.ReadSizes(&plan));
  const auto layers = static_cast<uint32_t>(plan.layers.size());
  ES_ASSIGN_OR_RETURN(SelfAttentionRules attention, ReadSelfAttention(build, plan.hidden, 1000000.0F));
  attention.qk_norm = QkNorm::kPerHead;
  // Key/value heads of each layer; 0 marks a convolution.
  ES_ASSIGN_OR_RETURN(const std::vector<uint32_t> kv_heads,
                      build.PerLayer("attention.head_count_kv", layers, 0, attention.heads));
  ES_ASSIGN_OR_RETURN(const uint32_t taps, build.Uint("shortconv.l_cache", 1, 64));
  ES_ASSIGN_OR_RETURN(const uint32_t dense_layers, build.UintOr("leading_dense_block_count", 0, 0, layers - 1));
  ES_ASSIGN_OR_RETURN(const uint32_t dense_ffn, build.Uint("feed_forward_length", 1, kMaxWidth));
  ES_ASSIGN_OR_RETURN(const uint32_t ffn, build.Uint("expert_feed_forward_length", 1, kMaxWidth));
  RouterRules router;
  router.epsilon = attention.epsilon;
  router.gating = Gating::kSigmoid;
  router.renormalize = true;
  router.bias = true;
  ES_RETURN_IF_ERROR(ReadRouterKeys(build, &router));
  for (uint32_t i = 0; i < layers; ++i) {
    LayerPlan& layer = plan.layers[i];
    RecordLayout record(fmt::format("blk.{}", i));
    if (kv_heads[i] == 0) {
      ES_RETURN_IF_ERROR(AddShortConv(build, i, taps, attention.epsilon, plan.hidden, &record, &layer));
    } else {
      attention.kv_heads = kv_heads[i];
      ES_RETURN_IF_ERROR(AddSelfAttention(build, i, attention, plan.hidden, &record, &layer));
    }
    if (i < dense_layers) {
      ES_RETURN_IF_ERROR(AddDenseFfn(build, i, dense_ffn, attention.epsilon, plan.hidden, &record, &layer));
    } else {
      ES_RETURN_IF_ERROR(AddSparseFfn(build, i, router, ffn, &plan, &record, &layer));
    }
    layer.block = std::move(record).Finish();
  }
  ES_RETURN_IF_ERROR(build.AddEnds("token_embd_norm.weight", attention.epsilon, /*tied_head=*/true, &plan));
  return plan;
}

}  // namespace estream
