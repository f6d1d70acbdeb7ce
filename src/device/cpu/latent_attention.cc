// SPDX-License-Identifier: Apache-2.0
// First keys and values of all tokens, then the rows asked for. A block of `in` is read before the same block of `out`
// is written, and keys and values are complete by then, so `out` may be `in`.
#include "device/cpu/latent_attention.h"

#include <algorithm>

#include "device/cpu/record_part.h"
#include "graph/rope.h"
#include "kernels/decode_panel.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/rope.h"

namespace estream {

LatentAttentionOp::LatentAttentionOp(const LatentAttentionSpec& spec, const Capacity& capacity, Activations activations,
                                     ScratchPlan* plan)
    : spec_(spec),
      hidden_stride_(PaddedStride(spec.hidden)),
      query_stride_(PaddedStride(uint64_t{spec.heads} * spec.key_dim)),
      latent_stride_(PaddedStride(uint64_t{spec.latent} + spec.rope.dims)),
      expanded_stride_(PaddedStride(uint64_t{spec.heads} * (spec.nope_dim() + spec.value_dim))),
      padded_nope_(AlignUp(spec.nope_dim(), 16)),
      frequencies_(spec.rope.dims / 2) {
  for (uint32_t i = 0; i < spec.rope.dims / 2; ++i) frequencies_[i] = RopeFrequency(spec.rope, i);
  const uint32_t rows = std::min(kRowBlock, capacity.tokens);
  const bool half = activations == Activations::kQ8;
  normed_ = plan->Shared<float>(rows * hidden_stride_);
  queries_ = plan->Shared<float>(rows * query_stride_);
  latents_ = plan->Shared<float>(rows * latent_stride_);
  expanded_ = plan->Shared<float>(rows * expanded_stride_);
  key_value_ = KeyValuePlan(spec.heads, spec.key_dim, spec.value_dim, capacity.tokens, half, plan);
  angles_ = plan->PerThread<float>(spec.rope.dims);
  if (spec.split != 0) {
    key_panel_ = plan->PerThread<float>(uint64_t{spec.nope_dim()} * kTileRows);
    key_weights_ = plan->PerThread<float>(kTileRows * padded_nope_);
    key_rows_ = plan->PerThread<float>(rows * padded_nope_);
  }
  attend_ = AttendPlan(1, spec.key_dim, spec.value_dim, half, plan);
  input_ = ProductInput(activations, {spec.q, spec.kv_a}, rows, plan);
  latent_input_ = ProductInput(activations, {spec.split != 0 ? spec.v_b : spec.kv_b}, rows, plan);
  attended_ = ProductInput(activations, {spec.output}, rows, plan);
  panels_ = PanelScratch::Plan(*plan, rows);
}

Status LatentAttentionOp::Run(const CpuContext& context, const BoundBlockCall& call) const {
  const KeyValue kv = key_value_.at(context, call.tokens);
  for (uint32_t first = 0; first < call.tokens; first += kRowBlock) {
    const Rows rows{&call, true, first, std::min(kRowBlock, call.tokens - first)};
    ProjectLatents(context, rows, NormInput(context, rows));
    if (spec_.split != 0) {
      StoreSplit(context, rows, kv);
    } else {
      StoreFused(context, rows, kv);
    }
    StoreRotated(context, rows, kv);
  }
  for (uint32_t first = 0; first < call.rows; first += kRowBlock) {
    const Rows rows{&call, false, first, std::min(kRowBlock, call.rows - first)};
    AttendRows(context, rows, NormInput(context, rows), kv);
    AddProduct(
        context, panels_, TiledMatrix(spec_.output, call.weights),
        attended_.Take(context, expanded_.at(context.scratch), expanded_stride_, rows.count),
        [&](uint32_t r) { return call.in + uint64_t{rows.position(r)} * spec_.hidden; },
        [&](uint32_t r) { return call.out + uint64_t{rows.first + r} * spec_.hidden; });
  }
  return Status::Ok();
}

// h = RMSNorm(x)
ProductRows LatentAttentionOp::NormInput(const CpuContext& context, const Rows& rows) const {
  const float* const weight = Values(spec_.norm, rows.call->weights);
  float* const h = normed_.at(context.scratch);
  ForEachRow(context, rows.count, [&](uint32_t, uint32_t r) {
    RmsNorm(rows.call->in + uint64_t{rows.position(r)} * spec_.hidden, weight, spec_.hidden, spec_.norm_epsilon,
            h + r * hidden_stride_);
  });
  return input_.Take(context, h, hidden_stride_, rows.count);
}

// (c, r) = W_a h;  c = RMSNorm(c);  r rotated.
void LatentAttentionOp::ProjectLatents(const CpuContext& context, const Rows& rows, const ProductRows& h) const {
  const float* const weight = Values(spec_.latent_norm, rows.call->weights);
  float* const latents = latents_.at(context.scratch);
  Multiply(context, panels_, TiledMatrix(spec_.kv_a, rows.call->weights), h, latents, latent_stride_);
  ForEachRow(context, rows.count, [&](uint32_t thread, uint32_t r) {
    float* const row = latents + r * latent_stride_;
    RmsNorm(row, weight, spec_.latent, spec_.norm_epsilon, row);
    Rotate(context, thread, rows.position(r), row + spec_.latent, 1);
  });
}

void LatentAttentionOp::Rotate(const CpuContext& context, uint32_t thread, uint32_t position, float* x,
                               uint32_t heads) const {
  const auto pairs = static_cast<uint32_t>(frequencies_.size());
  const auto rotate = spec_.rope.style == RopeStyle::kHalves ? RotateHalves : RotateAdjacent;
  float* const cos = angles_.at(context.scratch, thread);
  RopeAngles(position, pairs, frequencies_.data(), cos, cos + pairs);
  rotate(x, heads, spec_.key_dim, pairs, cos, cos + pairs);
}

// (k, v) = W_b c, head by head, key rows first.
void LatentAttentionOp::StoreFused(const CpuContext& context, const Rows& rows, const KeyValue& kv) const {
  const uint64_t head_width = spec_.nope_dim() + spec_.value_dim;
  float* const expanded = expanded_.at(context.scratch);
  const ProductRows c = latent_input_.Take(context, latents_.at(context.scratch), latent_stride_, rows.count);
  Multiply(context, panels_, TiledMatrix(spec_.kv_b, rows.call->weights), c, expanded, expanded_stride_);
  ForEachKeyBlock(context, kv, rows.first, rows.count, [&](uint32_t head, uint32_t block, uint32_t r, uint32_t count) {
    const float* const from = expanded + r * expanded_stride_ + head * head_width;
    StoreKeys(kv, head, block, from, expanded_stride_, count, 0, spec_.nope_dim());
    StoreValues(kv, head, block, from + spec_.nope_dim(), expanded_stride_, count);
  });
}

// v = V_b c as any product; k = K_bᵀ c, where a tile's rows are what is summed over.
void LatentAttentionOp::StoreSplit(const CpuContext& context, const Rows& rows, const KeyValue& kv) const {
  float* const expanded = expanded_.at(context.scratch);
  const ProductRows c = latent_input_.Take(context, latents_.at(context.scratch), latent_stride_, rows.count);
  Multiply(context, panels_, TiledMatrix(spec_.v_b, rows.call->weights), c, expanded, expanded_stride_);
  ForEachKeyBlock(context, kv, rows.first, rows.count, [&](uint32_t head, uint32_t block, uint32_t r, uint32_t count) {
    StoreValues(kv, head, block, expanded + r * expanded_stride_ + uint64_t{head} * spec_.value_dim, expanded_stride_,
                count);
  });
  context.pool->Run(spec_.heads, [&](uint32_t thread, uint64_t item) {
    const auto head = static_cast<uint32_t>(item);
    ExpandKeys(context, thread, rows, head);
    const float* const keys = key_rows_.at(context.scratch, thread);
    for (uint32_t r = 0; r < rows.count; r += kKeyBlock) {
      StoreKeys(kv, head, (rows.first + r) / kKeyBlock, keys + r * padded_nope_, padded_nope_,
                std::min(kKeyBlock, rows.count - r), 0, spec_.nope_dim());
    }
  });
}

// key_rows = K_bᵀ c of one head: 32 latents, a panel, at a time, latents ascending with one accumulator an output.
// Always in floats: the sums run across the rows of a tile, and a block's scale is that of one row.
void LatentAttentionOp::ExpandKeys(const CpuContext& context, uint32_t thread, const Rows& rows, uint32_t head) const {
  const TiledMatrix w(spec_.k_b, rows.call->weights);
  const uint32_t nope = spec_.nope_dim();
  float* const panel = key_panel_.at(context.scratch, thread);
  float* const weights = key_weights_.at(context.scratch, thread);
  std::fill_n(weights, kTileRows * padded_nope_, 0.0F);
  for (uint32_t latent = 0; latent < spec_.latent; latent += kTileRows) {
    DecodePanelF32(w.format, w.panel((uint64_t{head} * spec_.latent + latent) / kTileRows), nope, 0, nope, panel);
    for (uint32_t i = 0; i < nope; ++i) {
      for (uint32_t l = 0; l < kTileRows; ++l) weights[l * padded_nope_ + i] = panel[size_t{i} * kTileRows + l];
    }
    MatMul(latents_.at(context.scratch) + latent, latent_stride_, rows.count, weights, padded_nope_, padded_nope_,
           kTileRows, key_rows_.at(context.scratch, thread), padded_nope_, /*accumulate=*/latent > 0);
  }
}

// The rotated part of the keys, the same for every head.
void LatentAttentionOp::StoreRotated(const CpuContext& context, const Rows& rows, const KeyValue& kv) const {
  const float* const rotated = latents_.at(context.scratch) + spec_.latent;
  ForEachKeyBlock(context, kv, rows.first, rows.count, [&](uint32_t head, uint32_t block, uint32_t r, uint32_t count) {
    StoreKeys(kv, head, block, rotated + r * latent_stride_, latent_stride_, count, spec_.nope_dim(), spec_.rope.dims);
  });
}

// q = W_q h, the last values of every head rotated; then attention into expanded_.
void LatentAttentionOp::AttendRows(const CpuContext& context, const Rows& rows, const ProductRows& h,
                                   const KeyValue& kv) const {
  float* const q = queries_.at(context.scratch);
  Multiply(context, panels_, TiledMatrix(spec_.q, rows.call->weights), h, q, query_stride_);
  ForEachRow(context, rows.count, [&](uint32_t thread, uint32_t r) {
    Rotate(context, thread, rows.position(r), q + r * query_stride_ + spec_.nope_dim(), spec_.heads);
  });
  const auto position = [&](uint32_t r) { return rows.position(r); };
  AttendRowBlock(context, attend_, kv, spec_.score_scale, rows.count, position, q, query_stride_,
                 expanded_.at(context.scratch), expanded_stride_);
}

}  // namespace estream
