// SPDX-License-Identifier: Apache-2.0
// Keys every family has, then those of each.
#include "tools/synth/model_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace estream {
namespace {

const char* Architecture(SynthFamily family) {
  switch (family) {
    case SynthFamily::kOlmoe:
      return "olmoe";
    case SynthFamily::kLfm2moe:
      return "lfm2moe";
    case SynthFamily::kDeepseek2:
      return "deepseek2";
    case SynthFamily::kQwen3moe:
      return "qwen3moe";
    case SynthFamily::kMixtral:
      return "llama";
  }
  return "";
}

// Sets keys under the architecture's prefix.
class PrefixedKeys {
 public:
  PrefixedKeys(std::string prefix, GgufWriter* writer) : prefix_(std::move(prefix)), writer_(*writer) {}
  void U32(const char* key, uint32_t value) { writer_.SetU32(prefix_ + key, value); }
  void F32(const char* key, float value) { writer_.SetF32(prefix_ + key, value); }
  void Bool(const char* key, bool value) { writer_.SetBool(prefix_ + key, value); }
  void String(const char* key, const char* value) { writer_.SetString(prefix_ + key, value); }
  void I32s(const char* key, const std::vector<int32_t>& values) { writer_.SetArray<int32_t>(prefix_ + key, values); }

 private:
  const std::string prefix_;
  GgufWriter& writer_;
};

// expert_gating_func.
constexpr uint32_t kSoftmax = 1;
constexpr uint32_t kSigmoid = 2;

void SetSizes(const ModelShape& s, PrefixedKeys* keys) {
  keys->U32("block_count", s.layers);
  keys->U32("context_length", s.context);
  keys->U32("embedding_length", s.hidden);
  keys->U32("feed_forward_length", s.dense_ffn != 0 ? s.dense_ffn : s.ffn);
  keys->U32("attention.head_count", s.heads);
  keys->F32("attention.layer_norm_rms_epsilon", s.epsilon);
  keys->F32("rope.freq_base", s.rope_base);
  keys->U32("expert_count", s.experts);
  keys->U32("expert_used_count", s.top_k);
  keys->U32("vocab_size", s.vocabulary);
}

void SetLfmKeys(const ModelShape& s, PrefixedKeys* keys) {
  std::vector<int32_t> kv_heads(s.layers, 0);  // 0: a convolution
  for (const uint32_t layer : s.attention_layers) kv_heads[layer] = static_cast<int32_t>(s.kv_heads);
  keys->I32s("attention.head_count_kv", kv_heads);
  keys->U32("shortconv.l_cache", 3);
  keys->U32("leading_dense_block_count", s.dense_layers);
  keys->U32("expert_feed_forward_length", s.ffn);
  keys->U32("expert_gating_func", kSigmoid);
}

// The layout with attn_k_b and attn_v_b: key_length and value_length describe the one latent head, the _mla ones the
// heads.
void SetDeepseekKeys(const ModelShape& s, PrefixedKeys* keys) {
  keys->U32("attention.head_count_kv", 1);
  keys->U32("attention.kv_lora_rank", s.kv_lora);
  keys->U32("attention.key_length", s.kv_lora + s.rope_dim);
  keys->U32("attention.value_length", s.kv_lora);
  keys->U32("attention.key_length_mla", s.nope_dim + s.rope_dim);
  keys->U32("attention.value_length_mla", s.value_dim);
  keys->U32("rope.dimension_count", s.rope_dim);
  keys->String("rope.scaling.type", "yarn");
  keys->F32("rope.scaling.factor", 40);
  keys->U32("rope.scaling.original_context_length", 4096);
  keys->F32("rope.scaling.yarn_log_multiplier", 0.0707f);
  keys->U32("leading_dense_block_count", s.dense_layers);
  keys->U32("expert_feed_forward_length", s.ffn);
  keys->U32("expert_shared_count", s.shared_experts);
  keys->F32("expert_weights_scale", 1);
  keys->U32("expert_gating_func", kSoftmax);
}

void SetFamilyKeys(const ModelShape& s, PrefixedKeys* keys) {
  switch (s.family) {
    case SynthFamily::kOlmoe:
      keys->U32("attention.head_count_kv", s.kv_heads);
      return;
    case SynthFamily::kLfm2moe:
      SetLfmKeys(s, keys);
      return;
    case SynthFamily::kDeepseek2:
      SetDeepseekKeys(s, keys);
      return;
    case SynthFamily::kQwen3moe:
      keys->U32("attention.head_count_kv", s.kv_heads);
      keys->U32("attention.key_length", s.head_dim);
      keys->U32("attention.value_length", s.head_dim);
      keys->U32("expert_feed_forward_length", s.ffn);
      return;
    case SynthFamily::kMixtral:
      keys->U32("attention.head_count_kv", s.kv_heads);
      keys->U32("rope.dimension_count", s.head_dim);
      return;
  }
}

}  // namespace

void SetModelKeys(const ModelShape& shape, TypeMix mix, uint64_t seed, GgufWriter* writer) {
  const std::string architecture = Architecture(shape.family);
  writer->SetString("general.architecture", architecture);
  writer->SetString("general.type", "model");
  writer->SetString("general.name", shape.title + " (synthetic)");
  writer->SetString("general.description", fmt::format("Random weights of the true shapes, seed {}", seed));
  PrefixedKeys keys(architecture + ".", writer);
  SetSizes(shape, &keys);
  SetFamilyKeys(shape, &keys);
  writer->SetU32("general.quantization_version", 2);
  writer->SetU32("general.file_type", FileType(mix));
}

}  // namespace estream
