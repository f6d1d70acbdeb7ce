// SPDX-License-Identifier: Apache-2.0
// What families share: typed keys, tensors with exact shape checks, and the parts that most models have.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "family/model_plan.h"
#include "family/record_layout.h"
#include "format/gguf.h"

namespace estream {

// Limits that no real model comes near; they keep every later product of two of them inside 64 bits.
inline constexpr uint64_t kMaxLayers = 1024;
inline constexpr uint64_t kMaxWidth = 1 << 17;  // hidden, ffn, heads x head_dim
inline constexpr uint64_t kMaxHeads = 1024;
inline constexpr uint64_t kMaxExperts = 4096;
inline constexpr uint64_t kMaxVocabulary = 1 << 22;
inline constexpr uint64_t kMaxContext = 1 << 24;

// One projection matrix found in the file: alone, or as some rows of a merged one.
struct FoundMatrix {
  WeightFormat format = WeightFormat::kF32;
  SourceRows source;
};

class PlanBuilder {
 public:
  PlanBuilder(const Gguf& file, std::string_view architecture, std::span<const GgufTensor> tensors);

  // Keys under the architecture's prefix: Uint("block_count", 1, kMaxLayers) reads "olmoe.block_count".
  Result<uint32_t> Uint(std::string_view key, uint64_t min, uint64_t max) const;
  Result<uint32_t> UintOr(std::string_view key, uint64_t absent, uint64_t min, uint64_t max) const;
  // A finite number in (min, max].
  Result<float> Float(std::string_view key, double min, double max) const;
  Result<float> FloatOr(std::string_view key, double absent, double min, double max) const;

  // Whether the architecture has this key.
  bool HasKey(std::string_view key) const { return file_.Find(prefix_ + std::string(key)) != nullptr; }
  Result<std::string_view> String(std::string_view key) const { return file_.String(prefix_ + std::string(key)); }
  Result<bool> BoolOr(std::string_view key, bool absent) const {
    return file_.BoolOr(prefix_ + std::string(key), absent);
  }
  // A value a layer: an array of `count` numbers in [min, max], or one number for all layers.
  Result<std::vector<uint32_t>> PerLayer(std::string_view key, uint32_t count, uint64_t min, uint64_t max) const;

  bool Has(std::string_view tensor) const { return by_name_.contains(tensor); }

  // A tileable [rows, cols] matrix stored alone as `name`.
  Result<FoundMatrix> Matrix(const std::string& name, uint64_t rows, uint64_t cols) const;
  // The same as rows [first, first + rows) of `merged` with `merged_rows` rows in all, when only that one exists.
  Result<FoundMatrix> MatrixOrPart(const std::string& name, uint64_t rows, uint64_t cols, const std::string& merged,
                                   uint64_t merged_rows, uint64_t first) const;
  // `count` values of a one-dimensional tensor.
  Result<SourceRows> Vector(const std::string& name, uint64_t count) const;
  // A [rows, cols] tensor that will be kept as f32 values, row-major.
  Result<SourceRows> FloatMatrix(const std::string& name, uint64_t rows, uint64_t cols) const;

  // `rows` x `cols` values for each of `depth` heads or experts, kept as one matrix of depth * rows rows.
  Result<FoundMatrix> StackedMatrix(const std::string& name, uint64_t rows, uint64_t cols, uint64_t depth) const;

  // Sizes every family has, into `plan`: hidden, vocabulary, context, experts, top_k.
  Status ReadSizes(ModelPlan* plan) const;

  // Embedding, final norm and head. `norm_name` differs by family; a missing head is the embedding when `tied_head`.
  Status AddEnds(const std::string& norm_name, float epsilon, bool tied_head, ModelPlan* plan) const;

  // Routed experts of layer `index` with `ffn` wide projections, merged or one tensor an expert, gate and up apart or
  // merged; finds or adds their shape class.
  Status AddExperts(uint32_t index, uint64_t ffn, ModelPlan* plan, LayerPlan* layer) const;

  // A Corrupt status that begins with the file's name.
  Status Bad(std::string message) const;
  Status NotSupported(std::string message) const;

 private:
  Result<const GgufTensor*> Find(const std::string& name) const;
  Result<const GgufTensor*> FindShaped(const std::string& name, std::initializer_list<uint64_t> dims) const;
  Result<FoundMatrix> Tileable(const GgufTensor& tensor, uint64_t first, uint64_t rows) const;
  struct FoundProjection {
    WeightFormat format = WeightFormat::kF32;
    ExpertSource::Projection source;
  };
  Result<FoundProjection> ExpertProjection(uint32_t layer, const char* which, uint64_t rows, uint64_t cols,
                                           uint64_t experts) const;
  uint32_t IndexOf(const GgufTensor& tensor) const { return static_cast<uint32_t>(&tensor - tensors_.data()); }

  const Gguf& file_;
  const std::string prefix_;
  const std::span<const GgufTensor> tensors_;
  std::map<std::string_view, const GgufTensor*, std::less<>> by_name_;
};

// "blk.3.attn_q.weight" from (3, "attn_q").
std::string LayerTensor(uint32_t layer, std::string_view what);

}  // namespace estream
