// SPDX-License-Identifier: Apache-2.0
// First keys and values of all tokens, then the rows asked for: project, attend, project back. A block of `in` is read
// before the same block of `out` is written, and keys and values are complete by then, so `out` may be `in`.
#include "device/cpu/attention.h"

#include "device/cpu/record_part.h"
#include "graph/rope.h"
#include "kernels/activation.h"
#include "kernels/norm.h"
#include "kernels/rope.h"

namespace estream {

AttentionOp::AttentionOp(const AttentionSpec& spec, const Capacity& capacity, Activations activations,
                         ScratchPlan* plan)
    : spec_(spec),
      hidden_stride_(PaddedStride(spec.hidden)),
      heads_stride_(PaddedStride(uint64_t{spec.heads} * spec.head_dim)),
      frequencies_(spec.rope.dims / 2) {
  for (uint32_t i = 0; i < spec.rope.dims / 2; ++i) frequencies_[i] = RopeFrequency(spec.rope, i);
  const uint32_t rows = std::min(kRowBlock, capacity.tokens);
  const bool half = activations == Activations::kQ8;
  normed_ = plan->Shared<float>(rows * hidden_stride_);
  projected_ = plan->Shared<float>(rows * heads_stride_);
  key_value_ = KeyValuePlan(spec.kv_heads, spec.head_dim, spec.head_dim, capacity.tokens, half, plan);
  angles_ = plan->PerThread<float>(spec.rope.dims);
  attend_ = AttendPlan(spec.heads / spec.kv_heads, spec.head_dim, spec.head_dim, half, plan);
  input_ = ProductInput(activations, {spec.q, spec.k, spec.v}, rows, plan);
  attended_ = ProductInput(activations, {spec.output}, rows, plan);
  panels_ = PanelScratch::Plan(*plan, rows);
}

Status AttentionOp::Run(const CpuContext& context, const BoundBlockCall& call) const {
  const KeyValue kv = key_value_.at(context, call.tokens);
  for (uint32_t first = 0; first < call.tokens; first += kRowBlock) {
    const Rows rows{&call, true, first, std::min(kRowBlock, call.tokens - first)};
    StoreKeyValue(context, rows, NormInput(context, rows), kv);
  }
  for (uint32_t first = 0; first < call.rows; first += kRowBlock) {
    const Rows rows{&call, false, first, std::min(kRowBlock, call.rows - first)};
    AttendRows(context, rows, NormInput(context, rows), kv);
    ProjectOutput(context, rows);
  }
  return Status::Ok();
}

// h = RMSNorm(x)
ProductRows AttentionOp::NormInput(const CpuContext& context, const Rows& rows) const {
  const float* const weight = Values(spec_.norm, rows.call->weights);
  float* const h = normed_.at(context.scratch);
  ForEachRow(context, rows.count, [&](uint32_t, uint32_t r) {
    RmsNorm(rows.call->in + uint64_t{rows.position(r)} * spec_.hidden, weight, spec_.hidden, spec_.norm_epsilon,
            h + r * hidden_stride_);
  });
  return input_.Take(context, h, hidden_stride_, rows.count);
}

// Norms the projected heads over the norm vector's own width (the whole row, or each head), then rotates them.
void AttentionOp::NormAndRotate(const CpuContext& context, const Rows& rows, const VectorSpec& norm,
                                uint32_t heads) const {
  const float* const weight = Values(norm, rows.call->weights);
  const uint64_t width = uint64_t{heads} * spec_.head_dim;
  const auto pairs = static_cast<uint32_t>(frequencies_.size());
  const auto rotate = spec_.rope.style == RopeStyle::kHalves ? RotateHalves : RotateAdjacent;
  ForEachRow(context, rows.count, [&](uint32_t thread, uint32_t r) {
    float* const row = projected_.at(context.scratch) + r * heads_stride_;
    if (spec_.qk_norm != QkNorm::kNone) {
      for (uint64_t i = 0; i < width; i += norm.count)
        RmsNorm(row + i, weight, norm.count, spec_.norm_epsilon, row + i);
    }
    float* const cos = angles_.at(context.scratch, thread);
    RopeAngles(rows.position(r), pairs, frequencies_.data(), cos, cos + pairs);
    rotate(row, heads, spec_.head_dim, pairs, cos, cos + pairs);
  });
}

// k, v = W h, normed and rotated, into their blocks. Rows are tokens and begin with a block.
void AttentionOp::StoreKeyValue(const CpuContext& context, const Rows& rows, const ProductRows& h,
                                const KeyValue& kv) const {
  static_assert(kRowBlock % kKeyBlock == 0);
  float* const projected = projected_.at(context.scratch);
  Multiply(context, panels_, TiledMatrix(spec_.k, rows.call->weights), h, projected, heads_stride_);
  NormAndRotate(context, rows, spec_.k_norm, spec_.kv_heads);
  ForEachKeyBlock(context, kv, rows.first, rows.count, [&](uint32_t head, uint32_t block, uint32_t r, uint32_t count) {
    StoreKeys(kv, head, block, projected + r * heads_stride_ + head * kv.key_dim, heads_stride_, count, 0, kv.key_dim);
  });
  Multiply(context, panels_, TiledMatrix(spec_.v, rows.call->weights), h, projected, heads_stride_);
  ForEachKeyBlock(context, kv, rows.first, rows.count, [&](uint32_t head, uint32_t block, uint32_t r, uint32_t count) {
    StoreValues(kv, head, block, projected + r * heads_stride_ + head * kv.value_dim, heads_stride_, count);
  });
}

// q = W h, normed and rotated; then attention in its place. Items are (kv head, block of query rows).
void AttentionOp::AttendRows(const CpuContext& context, const Rows& rows, const ProductRows& h,
                             const KeyValue& kv) const {
  float* const q = projected_.at(context.scratch);
  Multiply(context, panels_, TiledMatrix(spec_.q, rows.call->weights), h, q, heads_stride_);
  NormAndRotate(context, rows, spec_.q_norm, spec_.heads);

  const auto position = [&](uint32_t r) { return rows.position(r); };
  AttendRowBlock(context, attend_, kv, spec_.score_scale, rows.count, position, q, heads_stride_, q, heads_stride_);
}

// out = x + W_o attended
void AttentionOp::ProjectOutput(const CpuContext& context, const Rows& rows) const {
  const ProductRows attended = attended_.Take(context, projected_.at(context.scratch), heads_stride_, rows.count);
  AddProduct(
      context, panels_, TiledMatrix(spec_.output, rows.call->weights), attended,
      [&](uint32_t r) { return rows.call->in + uint64_t{rows.position(r)} * spec_.hidden; },
      [&](uint32_t r) { return rows.call->out + uint64_t{rows.first + r} * spec_.hidden; });
}

}  // namespace estream
