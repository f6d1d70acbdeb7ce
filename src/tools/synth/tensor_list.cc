// SPDX-License-Identifier: Apache-2.0
// One function a family, in the order of its forward pass. A gain is the root mean square of a projection's output for
// inputs of size 1.
#include "tools/synth/tensor_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/macros.h"
#include "tools/synth/counter_random.h"

namespace estream {
namespace {

// Columns of the embedding with a common mean: one super-block, so that every format can have it. Narrow models route
// evenly; they have no such columns.
constexpr uint64_t kRaisedColumns = 256;
constexpr uint64_t kMinRaisedWidth = 2048;

// Gains. Scores of two random tokens differ by about kQueryGain², so that softmax picks few of them; what a branch adds
// is its gain times the size of what it mixes: values about 0.5 after attention, SiLU(g) u about 0.6, and routing
// weights whose squares sum to about 0.2.
constexpr float kQueryGain = 1.5f;
constexpr float kAttentionGain = 0.35f;
constexpr float kExpertGain = 0.9f;
constexpr float kDenseGain = 0.4f;
constexpr float kConvolutionGain = 0.3f;
constexpr float kLogitGain = 2.0f;

class TensorList {
 public:
  TensorList(const ModelShape& shape, TypeMix mix, uint64_t seed) : s_(shape), mix_(mix), seed_(seed) {
    raised_ = s_.hidden >= kMinRaisedWidth ? kRaisedColumns : 0;
    for (uint32_t l = 0; l < s_.layers; ++l) value_count_ += HasAttention(l) ? 1 : 0;
  }

  std::vector<SynthTensor> Take() { return std::move(tensors_); }

  void SetLayer(uint32_t layer) { layer_ = layer; }
  bool HasAttention(uint32_t layer) const {
    return s_.family != SynthFamily::kLfm2moe ||
           std::count(s_.attention_layers.begin(), s_.attention_layers.end(), layer) != 0;
  }

  void Embedding(TensorRole role) {
    SynthTensor& t = Add("token_embd.weight", {s_.hidden, s_.vocabulary}, role, 1);
    t.recipe.raised_blocks = raised_ / Traits(t.recipe.format).block_elements;
  }
  void Head() { Add("output.weight", {s_.hidden, s_.vocabulary}, TensorRole::kHead, Deviation(kLogitGain, s_.hidden)); }

  // [rows, cols], in the current layer. Outputs have the size `gain`.
  void Matrix(const char* what, uint64_t rows, uint64_t cols, float gain, TensorRole role = TensorRole::kOther) {
    Add(Name(what), {cols, rows}, role, Deviation(gain, cols));
    if (role == TensorRole::kValue) ++value_index_;
  }
  // [count, rows, cols].
  void Matrices(const char* what, uint64_t count, uint64_t rows, uint64_t cols, float gain, TensorRole role) {
    Add(Name(what), {cols, rows, count}, role, Deviation(gain, cols));
  }
  // Weights around `mean`, all positive.
  void Norm(const std::string& name, uint64_t count, float mean = 1) {
    Add(name, {count}, TensorRole::kFloat, 0.25f * mean).mean = mean;
  }
  // The final norm where the embedding is the head too. Rows of that have size 1, so the norm brings logits to theirs.
  // Its weights have both signs: with positive ones every token would predict itself and nothing else.
  void TiedNorm() { Add("token_embd_norm.weight", {s_.hidden}, TensorRole::kFloat, Deviation(kLogitGain, s_.hidden)); }
  void LayerNorm(const char* what, uint64_t count, float mean = 1) { Norm(Name(what), count, mean); }
  void Bias(const char* name, uint64_t count, float deviation) {
    Add(fmt::format("blk.{}.{}.bias", layer_, name), {count}, TensorRole::kFloat, deviation);
  }

  void Attention() {
    const uint64_t q = uint64_t{s_.heads} * s_.head_dim, kv = uint64_t{s_.kv_heads} * s_.head_dim;
    // Where queries and keys are normed, the norm's weight sets their size.
    const bool normed = s_.family != SynthFamily::kMixtral;
    const uint64_t norm_width = s_.family == SynthFamily::kOlmoe ? q : s_.head_dim;
    LayerNorm("attn_norm", s_.hidden);
    Matrix("attn_q", q, s_.hidden, normed ? 1 : kQueryGain);
    Matrix("attn_k", kv, s_.hidden, normed ? 1 : kQueryGain, TensorRole::kKey);
    Matrix("attn_v", kv, s_.hidden, 1, TensorRole::kValue);
    if (normed) {
      LayerNorm("attn_q_norm", norm_width, kQueryGain);
      LayerNorm("attn_k_norm", norm_width, kQueryGain);
    }
    Matrix("attn_output", s_.hidden, q, kAttentionGain, TensorRole::kAttentionOutput);
  }

  void Convolution() {
    LayerNorm("attn_norm", s_.hidden);
    Add(Name("shortconv.conv"), {3, s_.hidden}, TensorRole::kFloat, Deviation(1, 3));
    Matrix("shortconv.in_proj", 3 * s_.hidden, s_.hidden, 1);
    Matrix("shortconv.out_proj", s_.hidden, s_.hidden, kConvolutionGain);
  }

  void LatentAttention() {
    const uint64_t nope = s_.nope_dim, rope = s_.rope_dim, latent = s_.kv_lora;
    LayerNorm("attn_norm", s_.hidden);
    Matrix("attn_q", s_.heads * (nope + rope), s_.hidden, kQueryGain);
    Matrix("attn_kv_a_mqa", latent + rope, s_.hidden, 1, TensorRole::kLatent);
    LayerNorm("attn_kv_a_norm", latent);
    // Stored transposed: rows of `nope` values that a query's part is multiplied with. As the key's projection it sums
    // over the latent.
    Add(Name("attn_k_b"), {nope, latent, s_.heads}, TensorRole::kLatent, Deviation(1, latent));
    Matrices("attn_v_b", s_.heads, s_.value_dim, latent, 1, TensorRole::kLatent);
    Matrix("attn_output", s_.hidden, uint64_t{s_.heads} * s_.value_dim, kAttentionGain, TensorRole::kAttentionOutput);
  }

  void FeedForward() {
    LayerNorm("ffn_norm", s_.hidden);
    if (layer_ < s_.dense_layers) {
      Dense("", s_.dense_ffn);
      return;
    }
    Router();
    if (s_.family == SynthFamily::kLfm2moe) Bias("exp_probs_b", s_.experts, 0.02f);
    Matrices("ffn_gate_exps", s_.experts, s_.ffn, s_.hidden, 1, TensorRole::kOther);
    Matrices("ffn_up_exps", s_.experts, s_.ffn, s_.hidden, 1, TensorRole::kOther);
    Matrices("ffn_down_exps", s_.experts, s_.hidden, s_.ffn, kExpertGain, TensorRole::kDown);
    if (s_.shared_experts != 0) Dense("_shexp", uint64_t{s_.ffn} * s_.shared_experts);
  }

 private:
  static float Deviation(float gain, uint64_t fan) { return gain / std::sqrt(static_cast<float>(fan)); }
  std::string Name(const std::string& what) const { return fmt::format("blk.{}.{}.weight", layer_, what); }

  SynthTensor& Add(std::string name, std::vector<uint64_t> dims, TensorRole role, float deviation) {
    SynthTensor t;
    t.recipe.format = ChooseFormat(mix_, s_, role, dims[0], layer_, value_index_, value_count_);
    t.recipe.key = RandomKey(seed_, name);
    t.recipe.deviation = deviation;
    t.recipe.row_blocks = dims[0] / Traits(t.recipe.format).block_elements;
    t.name = std::move(name);
    t.dims = std::move(dims);
    ES_CHECK(MakesBlocks(t.recipe.format));
    return tensors_.emplace_back(std::move(t));
  }

  void Dense(const std::string& suffix, uint64_t ffn) {
    Matrix(("ffn_gate" + suffix).c_str(), ffn, s_.hidden, 1);
    Matrix(("ffn_up" + suffix).c_str(), ffn, s_.hidden, 1);
    Matrix(("ffn_down" + suffix).c_str(), s_.hidden, ffn, kDenseGain, TensorRole::kDown);
  }

  // Logits of size 1, plus an offset that depends on the expert alone: popularities are a random permutation of evenly
  // spaced steps.
  void Router() {
    SynthTensor& t = Add(Name("ffn_gate_inp"), {s_.hidden, s_.experts}, TensorRole::kFloat, Deviation(1, s_.hidden));
    if (raised_ == 0) return;
    std::vector<uint32_t> order(s_.experts);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return RandomBits(~t.recipe.key, a) < RandomBits(~t.recipe.key, b); });
    // Keeps the offsets of later routers from fading as the residual grows.
    const float growth = std::sqrt(1 + s_.residual_growth * static_cast<float>(layer_));
    const float unit = growth / (static_cast<float>(raised_) * kRaisedMean);
    t.raised_columns = raised_;
    t.row_offsets.resize(s_.experts);
    for (uint32_t place = 0; place < s_.experts; ++place) {
      const float step = static_cast<float>(place) / static_cast<float>(s_.experts - 1) - 0.5f;
      t.row_offsets[order[place]] = step * s_.popularity_spread * unit;
    }
  }

  const ModelShape& s_;
  const TypeMix mix_;
  const uint64_t seed_;
  uint64_t raised_ = 0;
  uint32_t layer_ = 0;
  uint32_t value_index_ = 0;
  uint32_t value_count_ = 0;
  std::vector<SynthTensor> tensors_;
};

}  // namespace

uint64_t SynthTensor::elements() const {
  return std::accumulate(dims.begin(), dims.end(), uint64_t{1}, std::multiplies<>());
}

bool SynthTensor::is_expert() const { return name.find("_exps.") != std::string::npos; }

std::vector<SynthTensor> ListTensors(const ModelShape& shape, TypeMix mix, uint64_t seed) {
  TensorList list(shape, mix, seed);
  const bool tied = shape.family == SynthFamily::kLfm2moe;
  list.Embedding(tied ? TensorRole::kTiedEmbedding : TensorRole::kEmbedding);
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    list.SetLayer(layer);
    if (shape.family == SynthFamily::kDeepseek2) {
      list.LatentAttention();
    } else if (list.HasAttention(layer)) {
      list.Attention();
    } else {
      list.Convolution();
    }
    list.FeedForward();
  }
  list.SetLayer(0);
  if (tied) {
    list.TiedNorm();
  } else {
    list.Norm("output_norm.weight", shape.hidden);
    list.Head();
  }
  return list.Take();
}

}  // namespace estream
