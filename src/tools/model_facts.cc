// SPDX-License-Identifier: Apache-2.0
// The container first, which any file has; then what a plan adds.
#include "tools/model_facts.h"

#include <algorithm>
#include <cctype>

#include "family/family.h"
#include "pack/pack_file.h"
#include "pack/pack_keys.h"
#include "text/tokenizer.h"

namespace estream {
namespace {

std::string StringOr(const Gguf& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  return value == nullptr ? std::string() : std::string(value->AsString().value_or(""));
}

std::optional<uint64_t> UintOrNone(const Gguf& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  return value == nullptr ? std::nullopt : value->AsUint();
}

uint64_t ArrayCount(const Gguf& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  return value == nullptr || value->type() != GgufValueType::kArray ? 0 : value->count();
}

void AddTensors(const std::vector<GgufTensor>& tensors, ModelFacts* facts) {
  for (const GgufTensor& tensor : tensors) {
    const std::string type(GgufTypeName(tensor.gguf_type).value_or("?"));
    const auto same = std::find_if(facts->types.begin(), facts->types.end(), [&](auto& t) { return t.type == type; });
    TypeTotal& total = same != facts->types.end() ? *same : facts->types.emplace_back(TypeTotal{type});
    ++total.tensors;
    total.bytes += tensor.bytes;
    (IsExpertTensor(tensor.name) ? facts->expert_bytes : facts->other_bytes) += tensor.bytes;
  }
  std::sort(facts->types.begin(), facts->types.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
}

PlanFacts FactsOf(const ModelPlan& plan) {
  PlanFacts facts;
  facts.layers = static_cast<uint32_t>(plan.layers.size());
  facts.hidden = plan.hidden;
  facts.experts = plan.experts;
  facts.top_k = plan.top_k;
  facts.vocabulary = plan.vocabulary;
  facts.context = plan.context;
  facts.expert_stride = plan.expert_stride;
  for (const ExpertSpec& spec : plan.expert_classes) facts.classes.push_back({spec});
  facts.block_records = plan.layers.size();
  facts.smallest_block = UINT64_MAX;
  for (const LayerPlan& layer : plan.layers) {
    facts.smallest_block = std::min(facts.smallest_block, layer.block.bytes);
    facts.largest_block = std::max(facts.largest_block, layer.block.bytes);
    facts.block_bytes += layer.block.bytes;
    if (!layer.sparse) continue;
    ++facts.sparse_layers;
    facts.classes[layer.expert_class].records += plan.experts;
  }
  facts.head_bytes = plan.head_record.bytes;
  facts.embedding_bytes = plan.vocabulary * RowBytes(plan.embedding.format, plan.hidden);
  return facts;
}

TokenizerFacts TokenizerFactsOf(const Gguf& file) {
  TokenizerFacts facts;
  facts.model = StringOr(file, "tokenizer.ggml.model");
  facts.pre = StringOr(file, "tokenizer.ggml.pre");
  facts.tokens = ArrayCount(file, "tokenizer.ggml.tokens");
  facts.merges = ArrayCount(file, "tokenizer.ggml.merges");
  facts.bos = UintOrNone(file, "tokenizer.ggml.bos_token_id");
  facts.eos = UintOrNone(file, "tokenizer.ggml.eos_token_id");
  facts.has_chat_template = file.Find("tokenizer.chat_template") != nullptr;
  return facts;
}

// The plan and, for a pack, the tensors it was made from.
Status AddPack(const Gguf& file, ModelFacts* facts) {
  facts->is_pack = true;
  facts->architecture = StringOr(file, pack_keys::kArchitecture);
  const Result<PackFile> pack = PackFile::Open(file.path());
  if (!pack.ok()) {
    AddTensors(file.tensors(), facts);
    return pack.status();
  }
  AddTensors(pack->source_tensors(), facts);
  facts->plan = FactsOf(pack->plan());
  return Status::Ok();
}

Status AddModel(const Gguf& file, ModelFacts* facts) {
  facts->architecture = StringOr(file, "general.architecture");
  AddTensors(file.tensors(), facts);
  const Result<ModelPlan> plan = PlanModel(file);
  if (!plan.ok()) return plan.status();
  facts->plan = FactsOf(*plan);
  return Status::Ok();
}

}  // namespace

bool IsExpertTensor(std::string_view name) {
  if (name.find("_exps.") != std::string_view::npos) return true;
  for (const std::string_view part : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {
    const size_t at = name.find(part);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = name.substr(at + part.size());
    return !rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0])) != 0;
  }
  return false;
}

ModelFacts CollectFacts(const Gguf& file) {
  ModelFacts facts;
  facts.path = file.path();
  facts.version = file.version();
  facts.file_bytes = file.file_bytes();
  facts.files = file.shard_count();
  facts.name = StringOr(file, "general.name");
  facts.tokenizer = TokenizerFactsOf(file);
  facts.runs = file.Find(pack_keys::kVersion) != nullptr ? AddPack(file, &facts) : AddModel(file, &facts);
  if (facts.runs.ok()) facts.runs = Tokenizer::FromGguf(file, {}).status();
  return facts;
}

}  // namespace estream
