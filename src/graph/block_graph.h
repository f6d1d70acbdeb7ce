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

// Rotary position embedding of `dims` values of a head: pair i turns by the angle p * frequency(i) at position p, with
// frequency(i) = base^(-2i/dims).
//   linear  (original_context 0): every frequency is divided by `factor`
//   YaRN    (original_context > 0): frequencies that turn often within the original context are kept, those that turn
//           rarely are divided by `factor`, and a ramp joins them: see RopeFrequency.
struct RopeSpec {
  RopeStyle style = RopeStyle::kHalves;
  uint32_t dims = 0;
  float base = 10000;
  float factor = 1;
  uint32_t original_context = 0;
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

// out += W_down (SiLU(W_gate in) ⊙ W_up in): a dense feed-forward block, or the shared experts of a sparse layer.
//   in   [rows, hidden], normed already; not `out`
//   out  [rows, hidden], accumulated in place
struct FfnSpec {
  uint32_t hidden = 0;
  uint32_t ffn = 0;
  MatrixSpec gate;  // [ffn, hidden]
  MatrixSpec up;    // [ffn, hidden]
  MatrixSpec down;  // [hidden, ffn]
  bool operator==(const FfnSpec&) const = default;
};

// Gated short convolution, residual included (LFM2):
//   h = RMSNorm(in);  b, c, u = the thirds of W_in h;  z = b ⊙ u;  out = in + W_out (c ⊙ Σ_j conv[:, j] z[t - taps + 1
//   + j])
// with z = 0 before the first token.
//   in, out, row_ids  as AttentionSpec
struct ShortConvSpec {
  uint32_t hidden = 0;
  uint32_t taps = 0;
  float norm_epsilon = 0;
  VectorSpec norm;      // [hidden]
  VectorSpec conv;      // [hidden * taps], channel-major, oldest tap first
  MatrixSpec in_proj;   // [3 * hidden, hidden]
  MatrixSpec out_proj;  // [hidden, hidden]
  bool operator==(const ShortConvSpec&) const = default;
};

// Multi-head latent attention (DeepSeek-V2), residual included. Per head a key has key_dim - rope.dims values computed
// from the latent and rope.dims rotated ones that all heads share.
//   h = RMSNorm(in);  q = W_q h, its last rope.dims values of every head rotated
//   (c, r) = W_a h;  c = RMSNorm(c);  r rotated
//   fused file:  (k, v) of a head = W_b c, key rows first         split file: k = K_bᵀ c, v = V_b c, head by head
//   out = in + W_o softmax(score_scale q (k, r)ᵀ) v
//   in, out, row_ids  as AttentionSpec
struct LatentAttentionSpec {
  uint32_t hidden = 0;
  uint32_t heads = 0;
  uint32_t key_dim = 0;  // with the rotated part
  uint32_t value_dim = 0;
  uint32_t latent = 0;
  uint32_t split = 0;  // whether k_b and v_b are used instead of kv_b
  float norm_epsilon = 0;
  float score_scale = 0;
  RopeSpec rope;
  VectorSpec norm;         // [hidden]
  VectorSpec latent_norm;  // [latent]
  MatrixSpec q;            // [heads * key_dim, hidden]
  MatrixSpec kv_a;         // [latent + rope.dims, hidden]
  MatrixSpec kv_b;         // [heads * (key_dim - rope.dims + value_dim), latent]
  MatrixSpec k_b;          // [heads * latent, key_dim - rope.dims]
  MatrixSpec v_b;          // [heads * value_dim, latent]
  MatrixSpec output;       // [hidden, heads * value_dim]
  bool operator==(const LatentAttentionSpec&) const = default;

  uint32_t nope_dim() const { return key_dim - rope.dims; }
};

using BlockSpec = std::variant<EmbeddingSpec, NormSpec, LinearSpec, AttentionSpec, RouterSpec, FfnSpec, ShortConvSpec,
                               LatentAttentionSpec>;

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
