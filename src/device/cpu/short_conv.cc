// SPDX-License-Identifier: Apache-2.0
// Tokens in blocks; the last taps - 1 products of a block are kept for the next one. A block of `in` is read before the
// same block of `out` is written, and what later blocks need of it is in the products, so `out` may be `in`.
#include "device/cpu/short_conv.h"

#include <algorithm>

#include "device/cpu/record_part.h"
#include "kernels/activation.h"
#include "kernels/norm.h"

namespace estream {

ShortConvOp::ShortConvOp(const ShortConvSpec& spec, const Capacity& capacity, Activations activations,
                         ScratchPlan* plan)
    : spec_(spec), hidden_stride_(PaddedStride(spec.hidden)) {
  const uint32_t rows = std::min(kRowBlock, capacity.tokens);
  normed_ = plan->Shared<float>(rows * hidden_stride_);
  projected_ = plan->Shared<float>(rows * PaddedStride(3 * uint64_t{spec.hidden}));
  products_ = plan->Shared<float>((uint64_t{spec.taps} - 1 + rows) * spec.hidden);
  input_ = ProductInput(activations, {spec.in_proj}, rows, plan);
  gated_ = ProductInput(activations, {spec.out_proj}, rows, plan);
  panels_ = PanelScratch::Plan(*plan, rows);
}

Status ShortConvOp::Run(const CpuContext& context, const BoundBlockCall& call) const {
  std::fill_n(products_.at(context.scratch), (uint64_t{spec_.taps} - 1) * spec_.hidden, 0.0F);
  uint32_t row = 0;
  for (uint32_t token = 0; token < call.tokens && row < call.rows; token += kRowBlock) {
    Block block{token, std::min(kRowBlock, call.tokens - token), row, 0};
    while (row < call.rows && call.row_id(row) < token + block.tokens) ++row;
    block.rows = row - block.first_row;
    // The next row asked for may look back into this block; if it does not, and none is in it, nobody needs the block.
    const bool looked_back_into = row < call.rows && call.row_id(row) < uint64_t{token} + block.tokens + spec_.taps - 1;
    if (block.rows == 0 && !looked_back_into) continue;
    ProjectInput(context, call, block);
    if (block.rows > 0) {
      Convolve(context, call, block);
      AddProduct(
          context, panels_, TiledMatrix(spec_.out_proj, call.weights),
          gated_.Take(context, normed_.at(context.scratch), hidden_stride_, block.rows),
          [&](uint32_t r) { return call.in + uint64_t{call.row_id(block.first_row + r)} * spec_.hidden; },
          [&](uint32_t r) { return call.out + uint64_t{block.first_row + r} * spec_.hidden; });
    }
    KeepHistory(context, block);
  }
  return Status::Ok();
}

// h = RMSNorm(in);  (b, c, u) = W_in h;  products = b ⊙ u.
void ShortConvOp::ProjectInput(const CpuContext& context, const BoundBlockCall& call, const Block& block) const {
  const uint64_t hidden = spec_.hidden, stride = PaddedStride(3 * hidden);
  const float* const weight = Values(spec_.norm, call.weights);
  float* const h = normed_.at(context.scratch);
  float* const projected = projected_.at(context.scratch);
  float* const products = products_.at(context.scratch) + (uint64_t{spec_.taps} - 1) * hidden;
  ForEachRow(context, block.tokens, [&](uint32_t, uint32_t t) {
    RmsNorm(call.in + (block.first_token + t) * hidden, weight, hidden, spec_.norm_epsilon, h + t * hidden_stride_);
  });
  Multiply(context, panels_, TiledMatrix(spec_.in_proj, call.weights),
           input_.Take(context, h, hidden_stride_, block.tokens), projected, stride);
  ForEachRow(context, block.tokens, [&](uint32_t, uint32_t t) {
    const float* const row = projected + t * stride;
    for (uint64_t i = 0; i < hidden; ++i) products[t * hidden + i] = row[i] * row[2 * hidden + i];
  });
}

// normed = c ⊙ Σ_j conv[:, j] products[t - taps + 1 + j], oldest tap first.
void ShortConvOp::Convolve(const CpuContext& context, const BoundBlockCall& call, const Block& block) const {
  const uint64_t hidden = spec_.hidden, stride = PaddedStride(3 * hidden);
  const float* const conv = Values(spec_.conv, call.weights);
  const float* const projected = projected_.at(context.scratch);
  float* const gated = normed_.at(context.scratch);
  ForEachRow(context, block.rows, [&](uint32_t, uint32_t r) {
    const uint64_t t = call.row_id(block.first_row + r) - block.first_token;
    const float* const oldest = products_.at(context.scratch) + t * hidden;
    const float* const c = projected + t * stride + hidden;
    for (uint64_t i = 0; i < hidden; ++i) {
      float sum = 0;
      for (uint64_t j = 0; j < spec_.taps; ++j) sum += conv[i * spec_.taps + j] * oldest[j * hidden + i];
      gated[r * hidden_stride_ + i] = c[i] * sum;
    }
  });
}

void ShortConvOp::KeepHistory(const CpuContext& context, const Block& block) const {
  float* const products = products_.at(context.scratch);
  const uint64_t kept = (uint64_t{spec_.taps} - 1) * spec_.hidden;
  std::copy_n(products + uint64_t{block.tokens} * spec_.hidden, kept, products);
}

}  // namespace estream
