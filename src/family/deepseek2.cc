// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V2-Lite: latent attention with YaRN, leading dense layers, shared experts beside the routed ones.
#include <fmt/format.h>

#include <cmath>

#include "base/macros.h"
#include "family/block_plans.h"
#include "family/families.h"

namespace estream {
namespace {

// YaRN: frequencies change (RopeFrequency), and scores are scaled by m² with m = 1 + yarn_log_multiplier ln(factor).
// The factor on cosine and sine, mscale / mscale_all_dim, is 1 for this family.
Status ReadYarn(const PlanBuilder& build, LatentAttentionSpec* s) {
  if (!build.HasKey("rope.scaling.type")) return Status::Ok();
  ES_ASSIGN_OR_RETURN(const std::string_view type, build.String("rope.scaling.type"));
  if (type == "none") return Status::Ok();
  if (type != "yarn") {
    return build.NotSupported(fmt::format(
        "rope scaling \"{}\" is not supported for this architecture (known: none, yarn)", type.substr(0, 40)));
  }
  ES_ASSIGN_OR_RETURN(s->rope.factor, build.Float("rope.scaling.factor", 0, 1e6));
  ES_ASSIGN_OR_RETURN(s->rope.original_context, build.Uint("rope.scaling.original_context_length", 1, kMaxContext));
  ES_ASSIGN_OR_RETURN(const float log_multiplier, build.FloatOr("rope.scaling.yarn_log_multiplier", 0, -1e-30, 100));
  const double m = 1 + double{log_multiplier} * std::log(double{s->rope.factor});
  s->score_scale = static_cast<float>(s->score_scale * m * m);
  return Status::Ok();
}

// Sizes from metadata. A split file describes its compressed cache with key_length and value_length, and the heads with
// key_length_mla and value_length_mla.
Result<LatentAttentionSpec> ReadLatentAttention(const PlanBuilder& build, uint32_t hidden) {
  LatentAttentionSpec s;
  s.hidden = hidden;
  s.split = build.HasKey("attention.key_length_mla") ? 1 : 0;
  ES_ASSIGN_OR_RETURN(s.heads, build.Uint("attention.head_count", 1, kMaxHeads));
  ES_ASSIGN_OR_RETURN(s.key_dim,
                      build.Uint(s.split ? "attention.key_length_mla" : "attention.key_length", 1, kMaxWidth));
  ES_ASSIGN_OR_RETURN(s.value_dim,
                      build.Uint(s.split ? "attention.value_length_mla" : "attention.value_length", 1, kMaxWidth));
  ES_ASSIGN_OR_RETURN(s.latent, build.Uint("attention.kv_lora_rank", 1, kMaxWidth));
  ES_ASSIGN_OR_RETURN(s.rope.dims, build.Uint("rope.dimension_count", 2, kMaxWidth));
  if (s.rope.dims >= s.key_dim || s.rope.dims % 2 != 0 || uint64_t{s.heads} * (s.key_dim + s.value_dim) > kMaxWidth) {
    return build.Bad(fmt::format(
        "attention.head_count {}, key_length {}, rope.dimension_count {}, value_length {}: no possible shape", s.heads,
        s.key_dim, s.rope.dims, s.value_dim));
  }
  if (build.HasKey("attention.q_lora_rank")) {
    ES_ASSIGN_OR_RETURN(const uint32_t rank, build.Uint("attention.q_lora_rank", 0, kMaxWidth));
    if (rank != 0) return build.NotSupported(fmt::format("queries of rank {} (q_lora_rank) are not supported", rank));
  }
  s.rope.style = RopeStyle::kAdjacent;
  ES_ASSIGN_OR_RETURN(s.rope.base, build.FloatOr("rope.freq_base", 10000.0, 0, 1e12));
  ES_ASSIGN_OR_RETURN(s.norm_epsilon, build.Float("attention.layer_norm_rms_epsilon", 0, 1));
  s.score_scale = 1 / std::sqrt(static_cast<float>(s.key_dim));
  ES_RETURN_IF_ERROR(ReadYarn(build, &s));
  return s;
}

Status AddLatentAttention(const PlanBuilder& build, uint32_t index, const LatentAttentionSpec& sizes,
                          RecordLayout* record, LayerPlan* layer) {
  LatentAttentionSpec s = sizes;
  const auto name = [&](const char* what) { return LayerTensor(index, what); };
  const uint32_t kv_rows = s.nope_dim() + s.value_dim;
  ES_ASSIGN_OR_RETURN(const SourceRows norm, build.Vector(name("attn_norm"), s.hidden));
  ES_ASSIGN_OR_RETURN(const SourceRows latent_norm, build.Vector(name("attn_kv_a_norm"), s.latent));
  ES_ASSIGN_OR_RETURN(const FoundMatrix q, build.Matrix(name("attn_q"), s.heads * s.key_dim, s.hidden));
  ES_ASSIGN_OR_RETURN(const FoundMatrix kv_a, build.Matrix(name("attn_kv_a_mqa"), s.latent + s.rope.dims, s.hidden));
  ES_ASSIGN_OR_RETURN(const FoundMatrix output, build.Matrix(name("attn_output"), s.hidden, s.heads * s.value_dim));
  s.norm = record->AddVector(s.hidden, norm);
  s.latent_norm = record->AddVector(s.latent, latent_norm);
  s.q = record->AddMatrix(q.format, s.heads * s.key_dim, s.hidden, q.source);
  s.kv_a = record->AddMatrix(kv_a.format, s.latent + s.rope.dims, s.hidden, kv_a.source);
  if (s.split != 0) {
    ES_ASSIGN_OR_RETURN(const FoundMatrix k_b, build.StackedMatrix(name("attn_k_b"), s.latent, s.nope_dim(), s.heads));
    ES_ASSIGN_OR_RETURN(const FoundMatrix v_b, build.StackedMatrix(name("attn_v_b"), s.value_dim, s.latent, s.heads));
    s.k_b = record->AddMatrix(k_b.format, s.heads * s.latent, s.nope_dim(), k_b.source);
    s.v_b = record->AddMatrix(v_b.format, s.heads * s.value_dim, s.latent, v_b.source);
  } else {
    ES_ASSIGN_OR_RETURN(const FoundMatrix kv_b, build.Matrix(name("attn_kv_b"), s.heads * kv_rows, s.latent));
    s.kv_b = record->AddMatrix(kv_b.format, s.heads * kv_rows, s.latent, kv_b.source);
  }
  s.output = record->AddMatrix(output.format, s.hidden, s.heads * s.value_dim, output.source);
  layer->mixer = s;
  return Status::Ok();
}

}  // namespace

Result<ModelPlan> PlanDeepseek2(const PlanBuilder& build) {
  ModelPlan plan;
  ES_RETURN_IF_ERROR(build.ReadSizes(&plan));
  const auto layers = static_cast<uint32_t>(plan.layers.size());
  ES_ASSIGN_OR_RETURN(const LatentAttentionSpec attention, ReadLatentAttention(build, plan.hidden));
  ES_ASSIGN_OR_RETURN(const uint32_t dense_layers, build.UintOr("leading_dense_block_count", 0, 0, layers - 1));
  ES_ASSIGN_OR_RETURN(const uint32_t dense_ffn, build.Uint("feed_forward_length", 1, kMaxWidth));
  ES_ASSIGN_OR_RETURN(const uint32_t ffn, build.Uint("expert_feed_forward_length", 1, kMaxWidth));
  ES_ASSIGN_OR_RETURN(const uint32_t shared, build.UintOr("expert_shared_count", 0, 0, 64));
  RouterRules router;
  router.epsilon = attention.norm_epsilon;
  ES_ASSIGN_OR_RETURN(router.renormalize, build.BoolOr("expert_weights_norm", false));
  ES_RETURN_IF_ERROR(ReadRouterKeys(build, &router));
  for (uint32_t i = 0; i < layers; ++i) {
    LayerPlan& layer = plan.layers[i];
    RecordLayout record(fmt::format("blk.{}", i));
    ES_RETURN_IF_ERROR(AddLatentAttention(build, i, attention, &record, &layer));
    if (i < dense_layers) {
      ES_RETURN_IF_ERROR(AddDenseFfn(build, i, dense_ffn, attention.norm_epsilon, plan.hidden, &record, &layer));
    } else {
      router.bias = build.Has(fmt::format("blk.{}.exp_probs_b.bias", i));
      ES_RETURN_IF_ERROR(AddSparseFfn(build, i, router, ffn, &plan, &record, &layer));
      if (shared > 0) ES_RETURN_IF_ERROR(AddSharedExperts(build, i, shared * ffn, plan.hidden, &record, &layer));
    }
    layer.block = std::move(record).Finish();
  }
  ES_RETURN_IF_ERROR(build.AddEnds("output_norm.weight", attention.norm_epsilon, /*tied_head=*/false, &plan));
  return plan;
}

}  // namespace estream
