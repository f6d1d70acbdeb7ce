// SPDX-License-Identifier: Apache-2.0
// Random calls of every kind of block and of experts.
#pragma once

#include <vector>

#include "tests/device_rig.h"

namespace estream {

struct AttentionShape {
  uint32_t tokens, hidden, heads, kv_heads, head_dim, rope_dims;
  RopeStyle style = RopeStyle::kHalves;
  QkNorm qk_norm = QkNorm::kNone;
  WeightFormat format = WeightFormat::kQ8_0;
};

inline BlockCase MakeAttentionCase(const AttentionShape& s, Random& random) {
  RandomRecord record(random);
  AttentionSpec spec;
  spec.hidden = s.hidden;
  spec.heads = s.heads;
  spec.kv_heads = s.kv_heads;
  spec.head_dim = s.head_dim;
  spec.norm_epsilon = 1e-5f;
  spec.score_scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  spec.qk_norm = s.qk_norm;
  spec.rope = {s.style, s.rope_dims, 10000, 1};
  const uint32_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
  spec.norm = record.Vector(s.hidden, 0.5f, 1.5f);
  if (s.qk_norm != QkNorm::kNone) {
    const bool full = s.qk_norm == QkNorm::kFull;
    spec.q_norm = record.Vector(full ? q_width : s.head_dim, 0.5f, 2.5f);
    spec.k_norm = record.Vector(full ? kv_width : s.head_dim, 0.5f, 2.5f);
  }
  spec.q = record.Matrix(s.format, q_width, s.hidden);
  spec.k = record.Matrix(s.format, kv_width, s.hidden);
  spec.v = record.Matrix(s.format, kv_width, s.hidden);
  spec.output = record.Matrix(s.format, s.hidden, q_width);
  BlockCase c;
  c.spec = spec;
  c.record = record.Finish();
  c.in = random.Floats(size_t{s.tokens} * s.hidden, -2, 2);
  c.call.tokens = c.call.rows = s.tokens;
  c.out_count = c.in.size();
  return c;
}

// The same call for some rows only.
inline BlockCase WithRows(BlockCase c, const std::vector<uint32_t>& row_ids, uint32_t hidden) {
  c.row_ids = row_ids;
  c.call.rows = static_cast<uint32_t>(row_ids.size());
  c.out_count = row_ids.size() * hidden;
  return c;
}

struct RouterShape {
  uint32_t rows, hidden, experts, top_k;
  Gating gating = Gating::kSoftmax;
  uint32_t renormalize = 0;
  bool bias = false;
};

inline BlockCase MakeRouterCase(const RouterShape& s, Random& random) {
  RandomRecord record(random);
  RouterSpec spec;
  spec.hidden = s.hidden;
  spec.experts = s.experts;
  spec.top_k = s.top_k;
  spec.gating = s.gating;
  spec.renormalize = s.renormalize;
  spec.scale = 1.5f;
  spec.norm_epsilon = 1e-6f;
  spec.norm = record.Vector(s.hidden, 0.5f, 1.5f);
  spec.router = record.Vector(s.experts * s.hidden, -0.2f, 0.2f);
  if (s.bias) spec.bias = record.Vector(s.experts, -0.5f, 0.5f);
  BlockCase c;
  c.spec = spec;
  c.record = record.Finish();
  c.in = random.Floats(size_t{s.rows} * s.hidden, -2, 2);
  c.call.tokens = c.call.rows = s.rows;
  c.out_count = c.in.size();
  c.route_count = uint64_t{s.rows} * s.top_k;
  return c;
}

struct ExpertShape {
  uint32_t hidden, ffn, experts;
  WeightFormat gate = WeightFormat::kQ4_0, up = WeightFormat::kQ4_0, down = WeightFormat::kQ4_0;
};

// Experts in slots in reverse order, one slot left empty; no routes yet.
inline ExpertCase MakeExpertCase(const ExpertShape& s, uint32_t tokens, Random& random) {
  ExpertCase c;
  c.slot_count = s.experts + 1;
  c.placement.resize(s.experts);
  c.tokens = tokens;
  for (uint32_t e = 0; e < s.experts; ++e) {
    RandomRecord record(random);
    c.spec.hidden = s.hidden;
    c.spec.ffn = s.ffn;
    c.spec.gate = record.Matrix(s.gate, s.ffn, s.hidden);
    c.spec.up = record.Matrix(s.up, s.ffn, s.hidden);
    c.spec.down = record.Matrix(s.down, s.hidden, s.ffn);
    const std::vector<std::byte>& bytes = record.Finish();
    c.spec.record_bytes = bytes.size();
    c.arena.resize(c.slot_count * bytes.size());
    c.placement[e] = static_cast<int32_t>(s.experts - e);
    std::copy(bytes.begin(), bytes.end(), c.arena.begin() + c.placement[e] * static_cast<int64_t>(bytes.size()));
  }
  c.x = random.Floats(size_t{tokens} * s.hidden, -2, 2);
  c.y = random.Floats(size_t{tokens} * s.hidden, -2, 2);
  return c;
}

// Each token goes to `top_k` different random experts.
inline std::vector<Route> RandomRoutes(uint32_t tokens, uint32_t experts, uint32_t top_k, Random& random) {
  std::vector<Route> routes;
  for (uint32_t t = 0; t < tokens; ++t) {
    const uint32_t first = random.Below(experts);
    for (uint32_t i = 0; i < top_k; ++i) routes.push_back({(first + i) % experts, t, random.Uniform(0.1f, 1)});
  }
  return routes;
}

}  // namespace estream
