// SPDX-License-Identifier: Apache-2.0
// Opening is reading: header, plan, vocabulary. Weights stay where they are.
#include "engine/model_file.h"

#include "base/macros.h"
#include "family/family.h"

namespace estream {

ModelFile::ModelFile(Gguf file, ModelPlan plan, Tokenizer tokenizer)
    : file_(std::move(file)), plan_(std::move(plan)), tokenizer_(std::move(tokenizer)) {
  info_.path = file_.path();
  info_.architecture = plan_.architecture;
  if (const GgufValue* name = file_.Find("general.name"); name != nullptr) {
    info_.name = std::string(name->AsString().value_or(""));
  }
  info_.layers = static_cast<uint32_t>(plan_.layers.size());
  info_.sparse_layers = info_.layers;
  info_.hidden = plan_.hidden;
  info_.experts = plan_.experts;
  info_.top_k = plan_.top_k;
  info_.vocabulary = plan_.vocabulary;
  info_.context = plan_.context;
  info_.file_bytes = file_.file_bytes();
}

Result<std::vector<int32_t>> ModelFile::Encode(std::string_view text, const TextOptions& options) const {
  EncodeOptions encode;
  encode.add_special = options.add_special;
  encode.parse_special = options.parse_special;
  return tokenizer_.Encode(text, encode);
}

std::string ModelFile::Decode(std::span<const int32_t> tokens) const { return tokenizer_.Decode(tokens); }

std::optional<int32_t> ModelFile::bos() const { return tokenizer_.bos(); }

Result<std::shared_ptr<const Model>> Model::Open(const std::string& path, const ModelOptions& options) {
  ES_ASSIGN_OR_RETURN(Gguf file, Gguf::Open(path));
  ES_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(file));
  TokenizerOptions tokenizer_options;
  tokenizer_options.override_pre = options.override_pre;
  ES_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::FromGguf(file, tokenizer_options));
  return std::shared_ptr<const Model>(
      std::make_shared<ModelFile>(std::move(file), std::move(plan), std::move(tokenizer)));
}

}  // namespace estream
