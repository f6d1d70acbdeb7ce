// SPDX-License-Identifier: Apache-2.0
// Each mixer from its norm to its output projection, in the order of its formula in graph/block_graph.h.
#include "device/reference/reference_mixers.h"

#include <algorithm>
#include <numeric>

namespace estream::reference {

Matrix Mix(const AttentionSpec& spec, const std::byte* record, Matrix x, std::span<const uint32_t> rows) {
  RmsNorm(x, DecodeVector(spec.norm, record), spec.norm_epsilon);
  Matrix q = Product(x, DecodeMatrix(spec.q, record));
  Matrix k = Product(x, DecodeMatrix(spec.k, record));
  const Matrix v = Product(x, DecodeMatrix(spec.v, record));
  if (spec.qk_norm != QkNorm::kNone) {  // over the vector's own width: the whole projection, or each head
    RmsNorm(q, DecodeVector(spec.q_norm, record), spec.norm_epsilon);
    RmsNorm(k, DecodeVector(spec.k_norm, record), spec.norm_epsilon);
  }
  for (uint32_t t = 0; t < x.rows; ++t) {
    Rotate(spec.rope, t, q.row(t), spec.heads, spec.head_dim);
    Rotate(spec.rope, t, k.row(t), spec.kv_heads, spec.head_dim);
  }
  Matrix attended(static_cast<uint32_t>(rows.size()), spec.heads * spec.head_dim);
  for (uint32_t i = 0; i < attended.rows; ++i) {
    for (uint32_t head = 0; head < spec.heads; ++head) {
      const size_t column = size_t{head} * spec.head_dim;
      const HeadColumns kv{size_t{head / (spec.heads / spec.kv_heads)} * spec.head_dim, spec.head_dim};
      Attend(q.row(rows[i]) + column, k, kv, v, kv, rows[i], spec.score_scale, attended.row(i) + column);
    }
  }
  return Product(attended, DecodeMatrix(spec.output, record));
}

namespace {

// Keys and values of all heads from the latents c: [tokens, heads * key_dim] with room for the rotated part, and
// [tokens, heads * value_dim].
void ExpandLatents(const LatentAttentionSpec& spec, const std::byte* record, const Matrix& c, Matrix* k, Matrix* v) {
  const uint32_t nope = spec.nope_dim();
  *k = Matrix(c.rows, spec.heads * spec.key_dim);
  *v = Matrix(c.rows, spec.heads * spec.value_dim);
  if (spec.split != 0) {
    const Matrix k_b = DecodeMatrix(spec.k_b, record);  // rows (head, latent), columns the key's values
    *v = Product(c, DecodeMatrix(spec.v_b, record));
    for (uint32_t t = 0; t < c.rows; ++t) {
      for (uint32_t head = 0; head < spec.heads; ++head) {
        double* key = k->row(t) + size_t{head} * spec.key_dim;
        for (uint32_t l = 0; l < spec.latent; ++l) {
          const double* row = k_b.row(size_t{head} * spec.latent + l);
          for (uint32_t i = 0; i < nope; ++i) key[i] += c.row(t)[l] * row[i];
        }
      }
    }
    return;
  }
  const Matrix kv = Product(c, DecodeMatrix(spec.kv_b, record));
  for (uint32_t t = 0; t < c.rows; ++t) {
    for (uint32_t head = 0; head < spec.heads; ++head) {
      const double* from = kv.row(t) + size_t{head} * (nope + spec.value_dim);
      std::copy_n(from, nope, k->row(t) + size_t{head} * spec.key_dim);
      std::copy_n(from + nope, spec.value_dim, v->row(t) + size_t{head} * spec.value_dim);
    }
  }
}

}  // namespace

Matrix Mix(const LatentAttentionSpec& spec, const std::byte* record, Matrix x, std::span<const uint32_t> rows) {
  RmsNorm(x, DecodeVector(spec.norm, record), spec.norm_epsilon);
  Matrix q = Product(x, DecodeMatrix(spec.q, record));
  const Matrix kv_a = Product(x, DecodeMatrix(spec.kv_a, record));
  Matrix c(x.rows, spec.latent);
  for (uint32_t t = 0; t < x.rows; ++t) std::copy_n(kv_a.row(t), spec.latent, c.row(t));
  RmsNorm(c, DecodeVector(spec.latent_norm, record), spec.norm_epsilon);
  Matrix k, v;
  ExpandLatents(spec, record, c, &k, &v);

  const uint32_t nope = spec.nope_dim();
  for (uint32_t t = 0; t < x.rows; ++t) {
    std::vector<double> shared(kv_a.row(t) + spec.latent, kv_a.row(t) + kv_a.cols);
    Rotate(spec.rope, t, shared.data(), 1, spec.rope.dims);
    for (uint32_t head = 0; head < spec.heads; ++head) {
      std::copy(shared.begin(), shared.end(), k.row(t) + size_t{head} * spec.key_dim + nope);
      Rotate(spec.rope, t, q.row(t) + size_t{head} * spec.key_dim + nope, 1, spec.rope.dims);
    }
  }
  Matrix attended(static_cast<uint32_t>(rows.size()), spec.heads * spec.value_dim);
  for (uint32_t i = 0; i < attended.rows; ++i) {
    for (uint32_t head = 0; head < spec.heads; ++head) {
      const HeadColumns key{size_t{head} * spec.key_dim, spec.key_dim};
      const HeadColumns value{size_t{head} * spec.value_dim, spec.value_dim};
      Attend(q.row(rows[i]) + key.first, k, key, v, value, rows[i], spec.score_scale, attended.row(i) + value.first);
    }
  }
  return Product(attended, DecodeMatrix(spec.output, record));
}

Matrix Mix(const ShortConvSpec& spec, const std::byte* record, Matrix x, std::span<const uint32_t> rows) {
  RmsNorm(x, DecodeVector(spec.norm, record), spec.norm_epsilon);
  const Matrix bcu = Product(x, DecodeMatrix(spec.in_proj, record));
  const std::vector<double> conv = DecodeVector(spec.conv, record);
  const uint32_t hidden = spec.hidden;
  Matrix gated(static_cast<uint32_t>(rows.size()), hidden);
  for (uint32_t i = 0; i < gated.rows; ++i) {
    for (uint32_t ch = 0; ch < hidden; ++ch) {
      double sum = 0;
      for (uint32_t j = 0; j < spec.taps; ++j) {
        const int64_t t = int64_t{rows[i]} - spec.taps + 1 + j;
        if (t < 0) continue;  // zeros before the first token
        const double* at = bcu.row(static_cast<size_t>(t));
        sum += conv[size_t{ch} * spec.taps + j] * at[ch] * at[2 * hidden + ch];
      }
      gated.row(i)[ch] = bcu.row(rows[i])[hidden + ch] * sum;
    }
  }
  return Product(gated, DecodeMatrix(spec.out_proj, record));
}

}  // namespace estream::reference
