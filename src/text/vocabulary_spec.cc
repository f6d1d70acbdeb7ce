// SPDX-License-Identifier: Apache-2.0
// Reading the tokenizer's metadata: every array's type and length is checked before anything is taken from it.
#include "text/vocabulary_spec.h"

#include <fmt/format.h>

#include <cmath>

#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

constexpr char kModel[] = "tokenizer.ggml.model";
constexpr char kPre[] = "tokenizer.ggml.pre";
constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr char kTypes[] = "tokenizer.ggml.token_type";
constexpr char kScores[] = "tokenizer.ggml.scores";
constexpr char kMerges[] = "tokenizer.ggml.merges";

// Far above any vocabulary in use (262,144), far below what int32 ids hold.
constexpr uint64_t kMaxTokens = uint64_t{1} << 24;

Status Corrupt(const Gguf& gguf, const std::string& what) {
  return Status::Corrupt(fmt::format("{}: {}", ShownPath(gguf.path()), what));
}

std::string Kind(const GgufValue& value) {
  if (value.type() != GgufValueType::kArray) return fmt::format("a {}", GgufValueTypeName(value.type()));
  return fmt::format("an array of {} {}", value.count(), GgufValueTypeName(value.element_type()));
}

Result<std::vector<std::string_view>> StringArray(const Gguf& gguf, const char* key) {
  const GgufValue* value = gguf.Find(key);
  if (value == nullptr) return Corrupt(gguf, fmt::format("key \"{}\" is missing", key));
  std::optional<std::vector<std::string_view>> strings = value->Strings();
  if (!strings) return Corrupt(gguf, fmt::format("key \"{}\" is {}, expected an array of strings", key, Kind(*value)));
  return std::move(*strings);
}

// An array of numbers with one element a token.
Result<const GgufValue*> NumberArray(const Gguf& gguf, const char* key, uint64_t tokens) {
  const GgufValue* value = gguf.Find(key);
  if (value == nullptr) return Corrupt(gguf, fmt::format("key \"{}\" is missing", key));
  if (value->type() != GgufValueType::kArray || value->element_type() == GgufValueType::kString ||
      value->element_type() == GgufValueType::kArray) {
    return Corrupt(gguf, fmt::format("key \"{}\" is {}, expected an array of numbers", key, Kind(*value)));
  }
  if (value->count() != tokens) {
    return Corrupt(gguf, fmt::format("key \"{}\" has {} entries, \"{}\" has {}", key, value->count(), kTokens, tokens));
  }
  return value;
}

Status ReadModel(const Gguf& gguf, VocabularySpec* spec) {
  ES_ASSIGN_OR_RETURN(const std::string_view model, gguf.String(kModel));
  if (model == "gpt2") {
    spec->model = VocabularyModel::kBytePairs;
  } else if (model == "llama") {
    spec->model = VocabularyModel::kSentencePiece;
  } else {
    return Status::Unsupported(
        fmt::format("{}: {} {} is not supported; known: gpt2, llama", ShownPath(gguf.path()), kModel, Quoted(model)));
  }
  if (gguf.Find(kPre) != nullptr) {
    ES_ASSIGN_OR_RETURN(spec->pre, gguf.String(kPre));
  }
  const GgufValue* name = gguf.Find("general.name");
  if (name != nullptr) spec->model_name = name->AsString().value_or("");
  return Status::Ok();
}

Status ReadTypes(const Gguf& gguf, VocabularySpec* spec) {
  if (gguf.Find(kTypes) == nullptr) return Status::Ok();
  ES_ASSIGN_OR_RETURN(const GgufValue* types, NumberArray(gguf, kTypes, spec->tokens.size()));
  spec->types.reserve(types->count());
  for (uint64_t i = 0; i < types->count(); ++i) {
    const std::optional<int64_t> type = types->IntAt(i);
    if (!type || *type < 0 || *type > 6) {
      return Corrupt(gguf, fmt::format("{}[{}] is no token type (0 to 6)", kTypes, i));
    }
    spec->types.push_back(*type == 0 ? TokenType::kNormal : static_cast<TokenType>(*type));  // 0: undefined
  }
  return Status::Ok();
}

Status ReadScores(const Gguf& gguf, VocabularySpec* spec) {
  ES_ASSIGN_OR_RETURN(const GgufValue* scores, NumberArray(gguf, kScores, spec->tokens.size()));
  spec->scores.reserve(scores->count());
  for (uint64_t i = 0; i < scores->count(); ++i) {
    const std::optional<double> score = scores->FloatAt(i);
    if (!score || !std::isfinite(*score)) return Corrupt(gguf, fmt::format("{}[{}] is no finite float", kScores, i));
    spec->scores.push_back(static_cast<float>(*score));
  }
  return Status::Ok();
}

Status ReadId(const Gguf& gguf, const char* key, uint64_t tokens, std::optional<int32_t>* id) {
  if (gguf.Find(key) == nullptr) return Status::Ok();
  ES_ASSIGN_OR_RETURN(const uint64_t value, gguf.Uint(key, 0, tokens - 1));
  *id = static_cast<int32_t>(value);
  return Status::Ok();
}

Status ReadFlag(const Gguf& gguf, const char* key, std::optional<bool>* flag) {
  if (gguf.Find(key) == nullptr) return Status::Ok();
  ES_ASSIGN_OR_RETURN(*flag, gguf.BoolOr(key, false));
  return Status::Ok();
}

}  // namespace

Result<VocabularySpec> ReadVocabularySpec(const Gguf& gguf) {
  VocabularySpec spec;
  spec.origin = ShownPath(gguf.path());
  ES_RETURN_IF_ERROR(ReadModel(gguf, &spec));
  ES_ASSIGN_OR_RETURN(spec.tokens, StringArray(gguf, kTokens));
  const uint64_t tokens = spec.tokens.size();
  if (tokens == 0 || tokens > kMaxTokens) {
    return Corrupt(gguf, fmt::format("{} has {} entries, expected 1 to {}", kTokens, tokens, kMaxTokens));
  }
  ES_RETURN_IF_ERROR(ReadTypes(gguf, &spec));
  if (spec.model == VocabularyModel::kBytePairs) {
    ES_ASSIGN_OR_RETURN(spec.merges, StringArray(gguf, kMerges));
  } else {
    ES_RETURN_IF_ERROR(ReadScores(gguf, &spec));
  }
  ES_RETURN_IF_ERROR(ReadId(gguf, "tokenizer.ggml.bos_token_id", tokens, &spec.bos));
  ES_RETURN_IF_ERROR(ReadId(gguf, "tokenizer.ggml.eos_token_id", tokens, &spec.eos));
  ES_RETURN_IF_ERROR(ReadId(gguf, "tokenizer.ggml.unknown_token_id", tokens, &spec.unknown));
  ES_RETURN_IF_ERROR(ReadFlag(gguf, "tokenizer.ggml.add_bos_token", &spec.add_bos));
  ES_RETURN_IF_ERROR(ReadFlag(gguf, "tokenizer.ggml.add_eos_token", &spec.add_eos));
  ES_RETURN_IF_ERROR(ReadFlag(gguf, "tokenizer.ggml.add_space_prefix", &spec.add_space_prefix));
  return spec;
}

}  // namespace estream
