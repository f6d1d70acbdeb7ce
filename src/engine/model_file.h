// SPDX-License-Identifier: Apache-2.0
// The opened model behind the public Model: its file, its plan, its tokenizer.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "estream/model.h"
#include "family/model_plan.h"
#include "format/gguf.h"
#include "text/tokenizer.h"

namespace estream {

class ModelFile : public Model {
 public:
  ModelFile(Gguf file, ModelPlan plan, Tokenizer tokenizer);

  const ModelInfo& info() const override { return info_; }
  Result<std::vector<int32_t>> Encode(std::string_view text, const TextOptions& options) const override;
  std::string Decode(std::span<const int32_t> tokens) const override;
  std::optional<int32_t> bos() const override;

  const Gguf& file() const { return file_; }
  const ModelPlan& plan() const { return plan_; }

 private:
  const Gguf file_;
  const ModelPlan plan_;
  const Tokenizer tokenizer_;
  ModelInfo info_;
};

}  // namespace estream
