// SPDX-License-Identifier: Apache-2.0
// Everything that is not a routed expert, as plain data: one spec per kind of block, one invocation for all kinds.
//
// A graph is built per (kind, shape, formats); a call binds the address of the layer's weight record, so one graph
// serves all layers alike. Adding a kind: a spec here, then each device until it compiles.
#pragma once

#include <cstdint>
#include <variant>

#include "graph/refs.h"

namespace estream {

// out[t] = the dequantised embedding row t.
//   weights  [tokens] rows in GGUF block layout, RowBytes(format, hidden) apart (the prompt's rows, already gathered)
//   out      [tokens, hidden] f32
struct EmbeddingSpec {
  WeightFormat format = WeightFormat::kF32;
  uint32_t hidden = 0;
  bool operator==(const EmbeddingSpec&) const = default;
};

// out[r] = x / sqrt(mean(x²) + epsilon) ⊙ norm, for the rows in `row_ids` (all when none).
//   in [tokens, hidden], out [rows, hidden]; may be the same buffer only without row_ids
struct NormSpec {
  uint32_t hidden = 0;
  float epsilon = 0;
  VectorSpec norm;
  bool operator==(const NormSpec&) const = default;
};

// out[r, n] = Σ_k W[first_row + n, k] in[r, k], for n in [0, row_count): the head, in parts of whole panels.
//   in [rows, cols], out [rows, row_count] f32, rows `out_stride` values apart
struct LinearSpec {
  MatrixSpec matrix;
  bool operator==(const LinearSpec&) const = default;
};

enum class RopeStyle : uint32_t {
  kHalves,    // pairs (i, i + n/2): NeoX
  kAdjacent,  // pairs (2i, 2i + 1): interleaved
};

enum class QkNorm : uint32_t {
  kNone,
  kFull,     // RMS norm over the whole projection, before it is cut into heads
  kPerHead,  // RMS norm over each head, one weight vector for all heads
};

// Rotary position embedding of the first `dims` values of a head: angle of pair i at position p is
// p * base^(-2i/dims), divided by `factor` (linear scaling).
struct RopeSpec {
  RopeStyle style = RopeStyle::kHalves;
  uint32_t dims = 0;
  float base = 10000;
  float factor = 1;
  bool operator==(const RopeSpec&) const = default;
};

// Causal self-attention of one sequence with positions 0..tokens-1, residual included:
//   h = RMSNorm(x);  q, k, v = W h;  norms of q and k;  rotation;  out = x + W_o softmax(score_scale q kᵀ) v
// Query head i reads key/value head floor(i / (heads / kv_heads)).
//   in       [tokens, hidden]
//   out      [rows, hidden] for the rows in `row_ids` (ascending; all when none); may be `in` when there are no row_ids
struct AttentionSpec {
  uint32_t hidden = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  float norm_epsilon = 0;
  float score_scale = 0;
  QkNorm qk_norm = QkNorm::kNone;
  RopeSpec rope;
  VectorSpec norm;    // [hidden]
  VectorSpec q_norm;  // [heads * head_dim] or [head_dim]
  VectorSpec k_norm;  // [kv_heads * head_dim] or [head_dim]
  MatrixSpec q;       // [heads * head_dim, hidden]
  MatrixSpec k;       // [kv_heads * head_dim, hidden]
  MatrixSpec v;       // [kv_heads * head_dim, hidden]
  MatrixSpec output;  // [hidden, heads * head_dim]
  bool operator==(const AttentionSpec&) const = default;
};

enum class Gating : uint32_t { kSoftmax, kSigmoid };

// Scores experts and keeps the top-k of every row; all in f32.
//   h = RMSNorm(in);  logits = W_r h;  p = softmax(logits) or sigmoid(logits)
//   selection by p (+ bias, for selection only), ties to the lowest index; weight = p, divided by the chosen ones' sum
//   when `renormalize`, times `scale` in      [rows, hidden] out     [rows, hidden] h, the experts' input; not `in`
//   routes  [rows, top_k] Route, token = row, best first, expert in pack order
// Errors: Device, naming nothing but the row, when a logit is NaN or infinite.
struct RouterSpec {
  uint32_t hidden = 0;
  uint32_t experts = 0;
  uint32_t top_k = 0;
  Gating gating = Gating::kSoftmax;
  uint32_t renormalize = 0;
  float scale = 1;
  float norm_epsilon = 0;
  VectorSpec norm;    // [hidden]
  VectorSpec router;  // [experts * hidden], row-major f32
  VectorSpec bias;    // [experts], or count 0
  bool operator==(const RouterSpec&) const = default;
};

using BlockSpec = std::variant<EmbeddingSpec, NormSpec, LinearSpec, AttentionSpec, RouterSpec>;

// One call of a block graph; which fields are used stands with the spec of its kind.
struct BlockInvocation {
  uint32_t graph = 0;
  uint32_t tokens = 0;      // rows of `in`
  uint32_t rows = 0;        // rows of `out`
  uint32_t first_row = 0;   // LinearSpec: first matrix row, a multiple of 32
  uint32_t row_count = 0;   // LinearSpec: matrix rows
  uint32_t out_stride = 0;  // LinearSpec: values from one row of `out` to the next
  BufferRef weights;        // start of the record
  BufferRef in;
  BufferRef out;
  BufferRef row_ids;  // [rows] u32, or none
  BufferRef routes;
};
static_assert(sizeof(BlockInvocation) == 104);

}  // namespace estream
