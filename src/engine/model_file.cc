// SPDX-License-Identifier: Apache-2.0
// Opening is reading: header, plan, vocabulary. Weights stay where they are.
#include "engine/model_file.h"

#include <fmt/format.h>

#include "base/macros.h"
#include "family/family.h"
#include "format/quote.h"
#include "pack/gguf_records.h"
#include "pack/pack_keys.h"
#include "pack/pack_records.h"
#include "text/chat_template.h"

namespace estream {

ModelFile::ModelFile(Gguf file, ModelPlan plan, Tokenizer tokenizer)
    : file_(std::move(file)), plan_(std::move(plan)), tokenizer_(std::move(tokenizer)) {
  FillInfo();
}

ModelFile::ModelFile(PackFile pack, Tokenizer tokenizer) : pack_(std::move(pack)), tokenizer_(std::move(tokenizer)) {
  FillInfo();
}

void ModelFile::FillInfo() {
  info_.path = file().path();
  info_.architecture = plan().architecture;
  if (const GgufValue* name = file().Find("general.name"); name != nullptr) {
    info_.name = std::string(name->AsString().value_or(""));
  }
  info_.layers = static_cast<uint32_t>(plan().layers.size());
  info_.sparse_layers = static_cast<uint32_t>(plan().sparse_layers.size());
  info_.hidden = plan().hidden;
  info_.experts = plan().experts;
  info_.top_k = plan().top_k;
  info_.vocabulary = plan().vocabulary;
  info_.context = plan().context;
  info_.file_bytes = file().file_bytes();
  info_.is_pack = pack_.has_value();
}

std::unique_ptr<RecordSource> ModelFile::MakeRecords(bool check_hashes) const {
  return pack_ ? MakePackRecords(*pack_, check_hashes) : MakeGgufRecords(*file_, plan_);
}

Result<std::vector<int32_t>> ModelFile::Encode(std::string_view text, const TextOptions& options) const {
  EncodeOptions encode;
  encode.add_special = options.add_special;
  encode.parse_special = options.parse_special;
  return tokenizer_.Encode(text, encode);
}

Result<ChatPrompt> ModelFile::EncodeChat(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  std::string_view source = options.template_source;
  std::string name = options.template_name.empty() ? "the chat template" : options.template_name;
  if (source.empty()) {
    constexpr const char* kKey = "tokenizer.chat_template";
    name = fmt::format("{}: {}", ShownPath(info_.path), kKey);
    if (file().Find(kKey) == nullptr) {
      return Status::NotFound(name + " is missing; --chat-template FILE gives one");
    }
    ES_ASSIGN_OR_RETURN(source, file().String(kKey));
  }
  ES_ASSIGN_OR_RETURN(const ChatTemplate parsed, ChatTemplate::Parse(source, std::move(name)));
  ES_ASSIGN_OR_RETURN(RenderedChat chat,
                      parsed.Render(messages, VariablesOf(tokenizer_, options.add_generation_prompt)));
  ChatPrompt prompt;
  ES_ASSIGN_OR_RETURN(prompt.tokens, estream::EncodeChat(tokenizer_, chat));
  prompt.text = std::move(chat.text);
  prompt.spans = std::move(chat.spans);
  return prompt;
}

std::string ModelFile::Decode(std::span<const int32_t> tokens) const { return tokenizer_.Decode(tokens); }

std::optional<int32_t> ModelFile::bos() const { return tokenizer_.bos(); }

Result<std::shared_ptr<const Model>> Model::Open(const std::string& path, const ModelOptions& options) {
  ES_ASSIGN_OR_RETURN(Gguf file, Gguf::Open(path));
  ES_ASSIGN_OR_RETURN(const std::string_view architecture, file.String("general.architecture"));
  TokenizerOptions tokenizer_options;
  tokenizer_options.override_pre = options.override_pre;
  if (architecture == "estream") {
    ES_ASSIGN_OR_RETURN(PackFile pack, PackFile::Open(path));
    ES_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::FromGguf(pack.gguf(), tokenizer_options));
    return std::shared_ptr<const Model>(std::make_shared<ModelFile>(std::move(pack), std::move(tokenizer)));
  }
  ES_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(file));
  ES_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::FromGguf(file, tokenizer_options));
  return std::shared_ptr<const Model>(
      std::make_shared<ModelFile>(std::move(file), std::move(plan), std::move(tokenizer)));
}

}  // namespace estream
