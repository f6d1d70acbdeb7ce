// SPDX-License-Identifier: Apache-2.0
// OLMoE's keys, tensors and rules, in the order of its forward pass.
#include "family/olmoe.h"

#include <fmt/format.h>

#include <cmath>

#include "base/macros.h"

namespace estream {
namespace {

struct Sizes {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t ffn = 0;
  float epsilon = 0;
  RopeSpec rope;
};

Result<Sizes> ReadHeads(const PlanBuilder& build, uint32_t hidden) {
  Sizes s;
  ES_ASSIGN_OR_RETURN(s.heads, build.Uint("attention.head_count", 1, kMaxHeads));
  ES_ASSIGN_OR_RETURN(s.kv_heads, build.UintOr("attention.head_count_kv", s.heads, 1, s.heads));
  if (hidden % s.heads != 0 || s.heads % s.kv_heads != 0) {
    return build.Bad(
        fmt::format("{} heads and {} key/value heads do not divide a width of {}", s.heads, s.kv_heads, hidden));
  }
  s.head_dim = hidden / s.heads;
  ES_ASSIGN_OR_RETURN(s.rope.dims, build.UintOr("rope.dimension_count", s.head_dim, 2, s.head_dim));
  if (s.rope.dims != s.head_dim || s.head_dim % 2 != 0) {
    return build.Bad(fmt::format("rotation over {} values of heads of {}, expected all and an even number", s.rope.dims,
                                 s.head_dim));
  }
  s.rope.style = RopeStyle::kHalves;
  ES_ASSIGN_OR_RETURN(s.rope.base, build.FloatOr("rope.freq_base", 10000.0, 0, 1e12));
  ES_ASSIGN_OR_RETURN(s.epsilon, build.Float("attention.layer_norm_rms_epsilon", 0, 1));
  ES_ASSIGN_OR_RETURN(s.ffn, build.Uint("feed_forward_length", 1, kMaxWidth));
  return s;
}

Status AddAttention(const PlanBuilder& build, uint32_t index, const Sizes& s, uint32_t hidden, RecordLayout* record,
                    LayerPlan* layer) {
  const uint32_t q_rows = s.heads * s.head_dim;
  const uint32_t kv_rows = s.kv_heads * s.head_dim;
  const auto name = [&](const char* what) { return LayerTensor(index, what); };
  const std::string merged = name("attn_qkv");
  const uint32_t merged_rows = q_rows + 2 * kv_rows;

  ES_ASSIGN_OR_RETURN(const SourceRows norm, build.Vector(name("attn_norm"), hidden));
  ES_ASSIGN_OR_RETURN(const SourceRows q_norm, build.Vector(name("attn_q_norm"), q_rows));
  ES_ASSIGN_OR_RETURN(const SourceRows k_norm, build.Vector(name("attn_k_norm"), kv_rows));
  ES_ASSIGN_OR_RETURN(const FoundMatrix q, build.MatrixOrPart(name("attn_q"), q_rows, hidden, merged, merged_rows, 0));
  ES_ASSIGN_OR_RETURN(const FoundMatrix k,
                      build.MatrixOrPart(name("attn_k"), kv_rows, hidden, merged, merged_rows, q_rows));
  ES_ASSIGN_OR_RETURN(const FoundMatrix v,
                      build.MatrixOrPart(name("attn_v"), kv_rows, hidden, merged, merged_rows, q_rows + kv_rows));
  ES_ASSIGN_OR_RETURN(const FoundMatrix output, build.Matrix(name("attn_output"), hidden, q_rows));

  AttentionSpec a;
  a.hidden = hidden;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads;
  a.head_dim = s.head_dim;
  a.norm_epsilon = s.epsilon;
  a.score_scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  a.qk_norm = QkNorm::kFull;
  a.rope = s.rope;
  a.norm = record->AddVector(hidden, norm);
  a.q_norm = record->AddVector(q_rows, q_norm);
  a.k_norm = record->AddVector(kv_rows, k_norm);
  a.q = record->AddMatrix(q.format, q_rows, hidden, q.source);
  a.k = record->AddMatrix(k.format, kv_rows, hidden, k.source);
  a.v = record->AddMatrix(v.format, kv_rows, hidden, v.source);
  a.output = record->AddMatrix(output.format, hidden, q_rows, output.source);
  layer->mixer = a;
  return Status::Ok();
}

Status AddRouter(const PlanBuilder& build, uint32_t index, const Sizes& s, const ModelPlan& plan, RecordLayout* record,
                 LayerPlan* layer) {
  ES_ASSIGN_OR_RETURN(const SourceRows norm, build.Vector(LayerTensor(index, "ffn_norm"), plan.hidden));
  ES_ASSIGN_OR_RETURN(const SourceRows router,
                      build.FloatMatrix(LayerTensor(index, "ffn_gate_inp"), plan.experts, plan.hidden));
  RouterSpec r;
  r.hidden = plan.hidden;
  r.experts = plan.experts;
  r.top_k = plan.top_k;
  r.gating = Gating::kSoftmax;
  r.renormalize = 0;  // OLMoE keeps the probabilities as they are; they do not sum to 1
  r.norm_epsilon = s.epsilon;
  r.norm = record->AddVector(plan.hidden, norm);
  r.router = record->AddVector(plan.experts * plan.hidden, router, /*by_expert=*/true);
  layer->router = r;
  return Status::Ok();
}

}  // namespace

Result<ModelPlan> PlanOlmoe(const PlanBuilder& build) {
  ModelPlan plan;
  ES_RETURN_IF_ERROR(build.ReadSizes(&plan));
  ES_ASSIGN_OR_RETURN(const Sizes sizes, ReadHeads(build, plan.hidden));
  for (uint32_t i = 0; i < plan.layers.size(); ++i) {
    LayerPlan& layer = plan.layers[i];
    RecordLayout record(fmt::format("blk.{}", i));
    ES_RETURN_IF_ERROR(AddAttention(build, i, sizes, plan.hidden, &record, &layer));
    ES_RETURN_IF_ERROR(AddRouter(build, i, sizes, plan, &record, &layer));
    ES_RETURN_IF_ERROR(build.AddExperts(i, sizes.ffn, &plan, &layer));
    layer.block = std::move(record).Finish();
  }
  ES_RETURN_IF_ERROR(build.AddEnds("output_norm.weight", sizes.epsilon, /*tied_head=*/false, &plan));
  return plan;
}

}  // namespace estream
