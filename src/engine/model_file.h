// SPDX-License-Identifier: Apache-2.0
// The opened model behind the public Model: a model file or a pack, its plan, its tokenizer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "estream/model.h"
#include "family/model_plan.h"
#include "family/record_source.h"
#include "format/gguf.h"
#include "pack/pack_file.h"
#include "text/tokenizer.h"

namespace estream {

class ModelFile : public Model {
 public:
  ModelFile(Gguf file, ModelPlan plan, Tokenizer tokenizer);
  ModelFile(PackFile pack, Tokenizer tokenizer);

  const ModelInfo& info() const override { return info_; }
  Result<std::vector<int32_t>> Encode(std::string_view text, const TextOptions& options) const override;
  Result<ChatPrompt> EncodeChat(std::span<const ChatMessage> messages, const ChatOptions& options) const override;
  std::string Decode(std::span<const int32_t> tokens) const override;
  std::optional<int32_t> bos() const override;

  const ModelPlan& plan() const { return pack_ ? pack_->plan() : plan_; }
  // The pack, or null for a plain model file.
  const PackFile* pack() const { return pack_ ? &*pack_ : nullptr; }
  // Lives no longer than this. `check_hashes` matters for packs only.
  std::unique_ptr<RecordSource> MakeRecords(bool check_hashes) const;

 private:
  const Gguf& file() const { return pack_ ? pack_->gguf() : *file_; }
  void FillInfo();

  const std::optional<Gguf> file_;
  const ModelPlan plan_;
  const std::optional<PackFile> pack_;
  const Tokenizer tokenizer_;
  ModelInfo info_;
};

}  // namespace estream
