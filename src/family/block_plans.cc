// SPDX-License-Identifier: Apache-2.0
// Names are GGUF's; every shape is stated in full where a tensor is asked for.
#include "family/block_plans.h"

#include <fmt/format.h>

#include <cmath>

#include "base/macros.h"

namespace estream {
namespace {

Status ReadRopeScaling(const PlanBuilder& build, RopeSpec* rope) {
  if (!build.HasKey("rope.scaling.type")) return Status::Ok();
  ES_ASSIGN_OR_RETURN(const std::string_view type, build.String("rope.scaling.type"));
  if (type == "none") return Status::Ok();
  if (type != "linear") {
    return build.NotSupported(fmt::format(
        "rope scaling \"{}\" is not supported for this architecture (known: none, linear)", type.substr(0, 40)));
  }
  ES_ASSIGN_OR_RETURN(rope->factor, build.Float("rope.scaling.factor", 0, 1e6));
  return Status::Ok();
}

Status AddFfn(const PlanBuilder& build, uint32_t index, const char* suffix, uint32_t ffn, uint32_t hidden,
              RecordLayout* record, FfnSpec* spec) {
  const auto name = [&](const char* what) { return LayerTensor(index, fmt::format("ffn_{}{}", what, suffix)); };
  ES_ASSIGN_OR_RETURN(const FoundMatrix gate, build.Matrix(name("gate"), ffn, hidden));
  ES_ASSIGN_OR_RETURN(const FoundMatrix up, build.Matrix(name("up"), ffn, hidden));
  ES_ASSIGN_OR_RETURN(const FoundMatrix down, build.Matrix(name("down"), hidden, ffn));
  spec->hidden = hidden;
  spec->ffn = ffn;
  spec->gate = record->AddMatrix(gate.format, ffn, hidden, gate.source);
  spec->up = record->AddMatrix(up.format, ffn, hidden, up.source);
  spec->down = record->AddMatrix(down.format, hidden, ffn, down.source);
  return Status::Ok();
}

}  // namespace

Result<SelfAttentionRules> ReadSelfAttention(const PlanBuilder& build, uint32_t hidden, float default_rope_base) {
  SelfAttentionRules r;
  ES_ASSIGN_OR_RETURN(r.heads, build.Uint("attention.head_count", 1, kMaxHeads));
  ES_ASSIGN_OR_RETURN(r.head_dim, build.UintOr("attention.key_length", hidden / r.heads, 1, kMaxWidth));
  ES_ASSIGN_OR_RETURN(const uint32_t value_dim, build.UintOr("attention.value_length", r.head_dim, 1, kMaxWidth));
  if (!build.HasKey("attention.key_length") && hidden % r.heads != 0) {
    return build.Bad(fmt::format("attention.head_count {} does not divide embedding_length {}", r.heads, hidden));
  }
  if (value_dim != r.head_dim || uint64_t{r.heads} * r.head_dim > kMaxWidth) {
    return build.Bad(fmt::format(
        "attention.head_count {}, key_length {}, value_length {}: expected equal lengths and at most {} in all",
        r.heads, r.head_dim, value_dim, kMaxWidth));
  }
  ES_ASSIGN_OR_RETURN(r.rope.dims, build.UintOr("rope.dimension_count", r.head_dim, 2, kMaxWidth));
  if (r.rope.dims != r.head_dim || r.head_dim % 2 != 0) {
    return build.Bad(
        fmt::format("rope.dimension_count {} with attention.key_length {}, expected equal and even numbers",
                    r.rope.dims, r.head_dim));
  }
  r.rope.style = RopeStyle::kHalves;
  ES_ASSIGN_OR_RETURN(r.rope.base, build.FloatOr("rope.freq_base", default_rope_base, 0, 1e12));
  ES_RETURN_IF_ERROR(ReadRopeScaling(build, &r.rope));
  ES_ASSIGN_OR_RETURN(r.epsilon, build.Float("attention.layer_norm_rms_epsilon", 0, 1));
  r.kv_heads = r.heads;
  return r;
}

Status AddSelfAttention(const PlanBuilder& build, uint32_t index, const SelfAttentionRules& rules, uint32_t hidden,
                        RecordLayout* record, LayerPlan* layer) {
  if (rules.heads % rules.kv_heads != 0) {
    return build.Bad(
        fmt::format("attention.head_count_kv {} does not divide head_count {}", rules.kv_heads, rules.heads));
  }
  const uint32_t q_rows = rules.heads * rules.head_dim;
  const uint32_t kv_rows = rules.kv_heads * rules.head_dim;
  const uint32_t all_rows = q_rows + 2 * kv_rows;
  const auto name = [&](const char* what) { return LayerTensor(index, what); };
  const std::string merged = name("attn_qkv");

  AttentionSpec a;
  a.hidden = hidden;
  a.heads = rules.heads;
  a.kv_heads = rules.kv_heads;
  a.head_dim = rules.head_dim;
  a.norm_epsilon = rules.epsilon;
  a.score_scale = 1 / std::sqrt(static_cast<float>(rules.head_dim));
  a.qk_norm = rules.qk_norm;
  a.rope = rules.rope;
  ES_ASSIGN_OR_RETURN(const SourceRows norm, build.Vector(name("attn_norm"), hidden));
  a.norm = record->AddVector(hidden, norm);
  if (rules.qk_norm != QkNorm::kNone) {
    const bool full = rules.qk_norm == QkNorm::kFull;
    const uint32_t q_width = full ? q_rows : rules.head_dim;
    const uint32_t k_width = full ? kv_rows : rules.head_dim;
    ES_ASSIGN_OR_RETURN(const SourceRows q_norm, build.Vector(name("attn_q_norm"), q_width));
    ES_ASSIGN_OR_RETURN(const SourceRows k_norm, build.Vector(name("attn_k_norm"), k_width));
    a.q_norm = record->AddVector(q_width, q_norm);
    a.k_norm = record->AddVector(k_width, k_norm);
  }
  ES_ASSIGN_OR_RETURN(const FoundMatrix q, build.MatrixOrPart(name("attn_q"), q_rows, hidden, merged, all_rows, 0));
  ES_ASSIGN_OR_RETURN(const FoundMatrix k,
                      build.MatrixOrPart(name("attn_k"), kv_rows, hidden, merged, all_rows, q_rows));
  ES_ASSIGN_OR_RETURN(const FoundMatrix v,
                      build.MatrixOrPart(name("attn_v"), kv_rows, hidden, merged, all_rows, q_rows + kv_rows));
  ES_ASSIGN_OR_RETURN(const FoundMatrix output, build.Matrix(name("attn_output"), hidden, q_rows));
  a.q = record->AddMatrix(q.format, q_rows, hidden, q.source);
  a.k = record->AddMatrix(k.format, kv_rows, hidden, k.source);
  a.v = record->AddMatrix(v.format, kv_rows, hidden, v.source);
  a.output = record->AddMatrix(output.format, hidden, q_rows, output.source);
  layer->mixer = a;
  return Status::Ok();
}

Status ReadRouterKeys(const PlanBuilder& build, RouterRules* rules) {
  // Choosing groups of experts first is the rule of models that are not supported; the key may stand in any file.
  ES_ASSIGN_OR_RETURN(const uint32_t groups, build.UintOr("expert_group_count", 1, 0, kMaxExperts));
  if (groups > 1) {
    return build.NotSupported(
        fmt::format("expert_group_count is {}; routing by groups of experts is not supported", groups));
  }
  const uint32_t family = rules->gating == Gating::kSigmoid ? 2 : 1;
  ES_ASSIGN_OR_RETURN(const uint32_t gating, build.UintOr("expert_gating_func", family, 0, UINT32_MAX));
  if (gating != 1 && gating != 2) {
    return build.NotSupported(fmt::format("expert_gating_func is {}, known are 1 (softmax) and 2 (sigmoid)", gating));
  }
  rules->gating = gating == 2 ? Gating::kSigmoid : Gating::kSoftmax;
  if (build.HasKey("expert_weights_scale")) {
    ES_ASSIGN_OR_RETURN(const float scale, build.Float("expert_weights_scale", -1e-30, 1e6));
    rules->scale = scale == 0 ? 1 : scale;
  }
  return Status::Ok();
}

Status AddSparseFfn(const PlanBuilder& build, uint32_t index, const RouterRules& rules, uint64_t ffn, ModelPlan* plan,
                    RecordLayout* record, LayerPlan* layer) {
  ES_ASSIGN_OR_RETURN(const SourceRows norm, build.Vector(LayerTensor(index, "ffn_norm"), plan->hidden));
  ES_ASSIGN_OR_RETURN(const SourceRows router,
                      build.FloatMatrix(LayerTensor(index, "ffn_gate_inp"), plan->experts, plan->hidden));
  RouterSpec& r = layer->router;
  r.hidden = plan->hidden;
  r.experts = plan->experts;
  r.top_k = plan->top_k;
  r.gating = rules.gating;
  r.renormalize = rules.renormalize ? 1 : 0;
  r.scale = rules.scale;
  r.norm_epsilon = rules.epsilon;
  r.norm = record->AddVector(plan->hidden, norm);
  r.router = record->AddVector(plan->experts * plan->hidden, router, /*by_expert=*/true);
  if (rules.bias) {
    ES_ASSIGN_OR_RETURN(const SourceRows bias,
                        build.Vector(fmt::format("blk.{}.exp_probs_b.bias", index), plan->experts));
    r.bias = record->AddVector(plan->experts, bias, /*by_expert=*/true);
  }
  layer->sparse = true;
  return build.AddExperts(index, ffn, plan, layer);
}

Status AddDenseFfn(const PlanBuilder& build, uint32_t index, uint32_t ffn, float epsilon, uint32_t hidden,
                   RecordLayout* record, LayerPlan* layer) {
  ES_ASSIGN_OR_RETURN(const SourceRows norm, build.Vector(LayerTensor(index, "ffn_norm"), hidden));
  layer->sparse = false;
  layer->ffn_norm = {hidden, epsilon, record->AddVector(hidden, norm)};
  return AddFfn(build, index, "", ffn, hidden, record, &layer->ffn);
}

Status AddSharedExperts(const PlanBuilder& build, uint32_t index, uint32_t ffn, uint32_t hidden, RecordLayout* record,
                        LayerPlan* layer) {
  return AddFfn(build, index, "_shexp", ffn, hidden, record, &layer->ffn);
}

Status AddUniformLayers(const PlanBuilder& build, const SelfAttentionRules& attention, const RouterRules& router,
                        uint64_t ffn, ModelPlan* plan) {
  for (uint32_t i = 0; i < plan->layers.size(); ++i) {
    LayerPlan& layer = plan->layers[i];
    RecordLayout record(fmt::format("blk.{}", i));
    ES_RETURN_IF_ERROR(AddSelfAttention(build, i, attention, plan->hidden, &record, &layer));
    ES_RETURN_IF_ERROR(AddSparseFfn(build, i, router, ffn, plan, &record, &layer));
    layer.block = std::move(record).Finish();
  }
  return Status::Ok();
}

}  // namespace estream
