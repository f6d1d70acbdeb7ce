// SPDX-License-Identifier: Apache-2.0
// Sizes are those of the models' own configuration files. Spreads of popularity are chosen so that the share of experts
// that a prompt activates grows with its length about as in the paper's Figure 3a.
#include "tools/synth/model_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "format/quote.h"

namespace estream {
namespace {

ModelShape Olmoe() {
  ModelShape s;
  s.id = "olmoe-1b-7b";
  s.title = "OLMoE-1B-7B";
  s.family = SynthFamily::kOlmoe;
  s.layers = 16;
  s.hidden = 2048;
  s.heads = s.kv_heads = 16;
  s.head_dim = 128;
  s.experts = 64;
  s.top_k = 8;
  s.ffn = 1024;
  s.vocabulary = 50304;
  s.context = 4096;
  s.epsilon = 1e-5f;
  s.rope_base = 1e4f;
  s.popularity_spread = 3.0f;
  s.residual_growth = 0.06f;
  return s;
}

ModelShape Lfm() {
  ModelShape s;
  s.id = "lfm2.5-8b-a1b";
  s.title = "LFM2.5-8B-A1B";
  s.family = SynthFamily::kLfm2moe;
  s.layers = 24;
  s.dense_layers = 2;
  s.hidden = 2048;
  s.heads = 32;
  s.kv_heads = 8;
  s.head_dim = 64;
  s.experts = 32;
  s.top_k = 4;
  s.ffn = 1792;
  s.dense_ffn = 7168;
  s.vocabulary = 128000;
  s.context = 128000;
  s.epsilon = 1e-5f;
  s.rope_base = 1e6f;
  s.attention_layers = {2, 6, 10, 14, 18, 21};
  s.popularity_spread = 3.0f;
  s.residual_growth = 0.17f;
  return s;
}

ModelShape DeepseekLite() {
  ModelShape s;
  s.id = "deepseek-v2-lite";
  s.title = "DeepSeek-V2-Lite";
  s.family = SynthFamily::kDeepseek2;
  s.layers = 27;
  s.dense_layers = 1;
  s.hidden = 2048;
  s.heads = s.kv_heads = 16;
  s.experts = 64;
  s.top_k = 6;
  s.ffn = 1408;
  s.dense_ffn = 10944;
  s.shared_experts = 2;
  s.vocabulary = 102400;
  s.context = 163840;
  s.epsilon = 1e-6f;
  s.rope_base = 1e4f;
  s.kv_lora = 512;
  s.rope_dim = 64;
  s.nope_dim = 128;
  s.value_dim = 128;
  s.popularity_spread = 3.2f;
  s.residual_growth = 0.1f;
  return s;
}

ModelShape Qwen() {
  ModelShape s;
  s.id = "qwen3-30b-a3b";
  s.title = "Qwen3-30B-A3B";
  s.family = SynthFamily::kQwen3moe;
  s.layers = 48;
  s.hidden = 2048;
  s.heads = 32;
  s.kv_heads = 4;
  s.head_dim = 128;
  s.experts = 128;
  s.top_k = 8;
  s.ffn = 768;
  s.dense_ffn = 6144;  // in the configuration, though no layer is dense
  s.vocabulary = 151936;
  s.context = 40960;
  s.epsilon = 1e-6f;
  s.rope_base = 1e6f;
  s.popularity_spread = 3.1f;
  s.residual_growth = 0.08f;
  return s;
}

ModelShape Mixtral() {
  ModelShape s;
  s.id = "mixtral-8x7b";
  s.title = "Mixtral-8x7B";
  s.family = SynthFamily::kMixtral;
  s.layers = 32;
  s.hidden = 4096;
  s.heads = 32;
  s.kv_heads = 8;
  s.head_dim = 128;
  s.experts = 8;
  s.top_k = 2;
  s.ffn = 14336;
  s.vocabulary = 32000;
  s.context = 32768;
  s.epsilon = 1e-5f;
  s.rope_base = 1e6f;
  s.popularity_spread = 2.0f;
  s.residual_growth = 0.22f;
  return s;
}

}  // namespace

const std::vector<ModelShape>& AllModelShapes() {
  static const std::vector<ModelShape> kShapes = {Olmoe(), Lfm(), DeepseekLite(), Qwen(), Mixtral()};
  return kShapes;
}

Result<ModelShape> FindModelShape(std::string_view id) {
  std::vector<std::string_view> known;
  for (const ModelShape& shape : AllModelShapes()) {
    if (shape.id == id) return shape;
    known.push_back(shape.id);
  }
  return Status::InvalidArgument(fmt::format("unknown model {}; known: {}", Quoted(id), fmt::join(known, ", ")));
}

Result<ModelShape> WithLayers(ModelShape shape, uint32_t layers) {
  if (layers <= shape.dense_layers || layers > shape.layers) {
    return Status::InvalidArgument(
        fmt::format("{} has {} layers, the first {} without experts; {} of them make no model", shape.id, shape.layers,
                    shape.dense_layers, layers));
  }
  shape.layers = layers;
  std::erase_if(shape.attention_layers, [layers](uint32_t layer) { return layer >= layers; });
  return shape;
}

ModelShape Tiny(ModelShape s) {
  s.layers = s.dense_layers + 2;
  std::erase_if(s.attention_layers, [&s](uint32_t layer) { return layer >= s.layers; });
  s.hidden = 256;
  s.heads = 4;
  s.kv_heads = std::min(s.kv_heads, s.family == SynthFamily::kOlmoe ? 4u : 2u);
  s.head_dim = s.head_dim == 0 ? 0 : 64;
  // Mixtral keeps its 8, for which the mixes have rules of their own.
  s.top_k = s.experts == 8 ? 2 : 3;
  s.experts = s.experts == 8 ? 8 : 12;
  s.ffn = 256;
  s.dense_ffn = s.dense_ffn == 0 ? 0 : 512;
  s.vocabulary = 1024;
  s.context = std::min(s.context, 4096u);
  if (s.family == SynthFamily::kDeepseek2) {
    s.kv_heads = s.heads;
    s.kv_lora = 256;
    s.rope_dim = 32;
    s.nope_dim = 64;
    s.value_dim = 64;
  }
  return s;
}

}  // namespace estream
