// SPDX-License-Identifier: Apache-2.0
// Putting a tokenizer together from its parts, and walking a text from one special token to the next.
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"
#include "format/quote.h"
#include "text/byte_alphabet.h"

namespace estream {
namespace {

bool IsAsciiBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The pre-tokenizer to use, or why none can be chosen. A file without a name for it is refused, not guessed at: the
// patterns differ in rare places only, so that a wrong one goes unnoticed and costs quality.
Result<const PreTokenizer*> ChoosePreTokenizer(const VocabularySpec& spec, const TokenizerOptions& options) {
  const PreTokenizer* chosen = nullptr;
  if (!options.override_pre.empty()) {
    chosen = FindPreTokenizer(options.override_pre);
    if (chosen != nullptr) return chosen;
    return Status::InvalidArgument(fmt::format("--override-pre {} is not a known pre-tokenizer; known: {}",
                                               Quoted(options.override_pre), PreTokenizerNames()));
  }
  if (!spec.pre) {
    return Status::Unsupported(
        fmt::format("{}: tokenizer.ggml.pre is missing; known: {}; --override-pre NAME chooses one", spec.origin,
                    PreTokenizerNames()));
  }
  chosen = FindPreTokenizer(*spec.pre);
  if (chosen != nullptr) return chosen;
  return Status::Unsupported(
      fmt::format("{}: tokenizer.ggml.pre {} is not supported; known: {}; --override-pre NAME chooses one", spec.origin,
                  Quoted(*spec.pre), PreTokenizerNames()));
}

}  // namespace

// What one Encode carries along.
struct Tokenizer::Run {
  std::vector<int32_t> tokens;
  BytePairEncoder::Scratch scratch;
  bool after_special = true;  // nothing but special tokens so far, or the last token was one
};

Result<Tokenizer> Tokenizer::FromGguf(const Gguf& gguf, const TokenizerOptions& options) {
  ES_ASSIGN_OR_RETURN(const VocabularySpec spec, ReadVocabularySpec(gguf));
  return FromSpec(spec, options);
}

Result<Tokenizer> Tokenizer::FromSpec(const VocabularySpec& spec, const TokenizerOptions& options) {
  Tokenizer tokenizer;
  tokenizer.model_ = spec.model;
  ES_ASSIGN_OR_RETURN(tokenizer.vocabulary_, Vocabulary::Build(spec));
  bool add_bos_by_default = true;
  if (spec.model == VocabularyModel::kBytePairs) {
    ES_ASSIGN_OR_RETURN(const PreTokenizer* pre_tokenizer, ChoosePreTokenizer(spec, options));
    ES_ASSIGN_OR_RETURN(tokenizer.byte_pairs_, BytePairEncoder::Build(spec, tokenizer.vocabulary_, *pre_tokenizer));
    add_bos_by_default = pre_tokenizer->adds_bos;
  } else {
    if (!options.override_pre.empty()) {
      return Status::InvalidArgument(
          fmt::format("--override-pre {} does not apply: {} has a SentencePiece vocabulary, which has no pre-tokenizer",
                      Quoted(options.override_pre), spec.origin));
    }
    ES_ASSIGN_OR_RETURN(tokenizer.sentence_piece_, SentencePieceEncoder::Build(spec, tokenizer.vocabulary_));
    tokenizer.add_blank_prefix_ = spec.add_space_prefix.value_or(true);
  }
  tokenizer.specials_ = SpecialMatcher(tokenizer.vocabulary_);
  tokenizer.SetStripping(spec);
  ES_RETURN_IF_ERROR(tokenizer.SetSpecial(spec, add_bos_by_default));
  return tokenizer;
}

Status Tokenizer::SetSpecial(const VocabularySpec& spec, bool add_bos_by_default) {
  bos_ = spec.bos;
  eos_ = spec.eos;
  add_bos_ = spec.add_bos.value_or(add_bos_by_default && bos_.has_value());
  add_eos_ = spec.add_eos.value_or(false);
  if (add_bos_ && !bos_) {
    return Status::Corrupt(
        fmt::format("{}: tokenizer.ggml.add_bos_token is set, but there is no bos_token_id", spec.origin));
  }
  if (add_eos_ && !eos_) {
    return Status::Corrupt(
        fmt::format("{}: tokenizer.ggml.add_eos_token is set, but there is no eos_token_id", spec.origin));
  }
  return Status::Ok();
}

// The special tokens of Phi-3 swallow the blanks after them, which GGUF has no key for; only the model's name tells.
void Tokenizer::SetStripping(const VocabularySpec& spec) {
  std::string name = spec.model_name;
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
  strips_right_.resize(vocabulary_.size());
  for (uint32_t i = 0; i < vocabulary_.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string_view text = vocabulary_.text(id);
    const bool special = vocabulary_.IsReserved(id) || vocabulary_.type(id) == TokenType::kUserDefined;
    strips_right_[i] = special && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
  }
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  const TextPart part{text, options.parse_special};
  return Encode(std::span(&part, 1), options);
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::span<const TextPart> parts, const EncodeOptions& options) const {
  size_t bytes = 0;
  for (const TextPart& part : parts) {
    if (part.text.size() > kMaxTextBytes - bytes) {
      return Status::InvalidArgument(fmt::format("the text is longer than {} bytes", kMaxTextBytes));
    }
    bytes += part.text.size();
  }
  std::string joined;
  if (parts.size() > 1) {
    joined.reserve(bytes);
    for (const TextPart& part : parts) joined += part.text;
  }
  Run run;
  run.after_special = options.blank_prefix;
  if (options.add_special && add_bos_) run.tokens.push_back(*bos_);
  ES_RETURN_IF_ERROR(EncodeParts(parts.size() == 1 ? parts[0].text : std::string_view(joined), parts, &run));
  if (options.add_special && add_eos_) run.tokens.push_back(*eos_);
  return std::move(run.tokens);
}

Status Tokenizer::EncodeParts(std::string_view text, std::span<const TextPart> parts, Run* run) const {
  size_t plain = 0;  // where the text not yet encoded begins
  size_t part = 0, part_end = parts.empty() ? 0 : parts[0].text.size();
  for (size_t at = 0; at < text.size();) {
    while (at >= part_end) part_end += parts[++part].text.size();
    const size_t reserved_end = parts[part].parse_special ? part_end : 0;
    const SpecialMatcher::Match match = specials_.LongestAt(text, at, reserved_end);
    if (match.bytes == 0) {
      ++at;
      continue;
    }
    ES_RETURN_IF_ERROR(EncodePlain(text.substr(plain, at - plain), run));
    run->tokens.push_back(match.token);
    run->after_special = true;
    at += match.bytes;
    if (!strips_right_.empty() && strips_right_[static_cast<size_t>(match.token)]) {
      while (at < text.size() && IsAsciiBlank(text[at])) ++at;
    }
    plain = at;
  }
  return EncodePlain(text.substr(plain), run);
}

Status Tokenizer::EncodePlain(std::string_view text, Run* run) const {
  if (text.empty()) return Status::Ok();
  const bool blank = add_blank_prefix_ && run->after_special;
  run->after_special = false;
  if (model_ == VocabularyModel::kSentencePiece) return sentence_piece_.Encode(vocabulary_, text, blank, &run->tokens);
  return byte_pairs_.Encode(vocabulary_, text, &run->scratch, &run->tokens);
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  bool after_special = true;
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocabulary_.size()) continue;
    const size_t before = text.size();
    AppendPiece(token, &text);
    const bool special = vocabulary_.IsReserved(token) || vocabulary_.type(token) == TokenType::kUserDefined;
    // Takes the blank off that Encode put in front.
    if (add_blank_prefix_ && after_special && !special && text.size() > before && text[before] == ' ') {
      text.erase(before, 1);
    }
    after_special = special;
  }
  return text;
}

std::string Tokenizer::Piece(int32_t token) const {
  std::string piece;
  if (token >= 0 && static_cast<uint32_t>(token) < vocabulary_.size()) AppendPiece(token, &piece);
  return piece;
}

void Tokenizer::AppendPiece(int32_t token, std::string* out) const {
  const std::string_view text = vocabulary_.text(token);
  const TokenType type = vocabulary_.type(token);
  const int byte = SentencePieceEncoder::ByteOfToken(vocabulary_, token);
  if (byte >= 0) {
    out->push_back(static_cast<char>(byte));
  } else if (type != TokenType::kNormal) {
    out->append(text);
  } else if (model_ == VocabularyModel::kBytePairs) {
    AppendAsBytes(text, out);
  } else {
    for (size_t at = 0; at < text.size();) {
      const bool blank = text.substr(at, kBlankMark.size()) == kBlankMark;
      out->push_back(blank ? ' ' : text[at]);
      at += blank ? kBlankMark.size() : 1;
    }
  }
}

std::optional<int32_t> Tokenizer::FindToken(std::string_view text) const {
  const int32_t id = vocabulary_.Find(text);
  return id == Vocabulary::kNone ? std::nullopt : std::optional(id);
}

bool Tokenizer::BeginsTwice(std::span<const int32_t> tokens) const {
  return bos_ && tokens.size() >= 2 && tokens[0] == *bos_ && tokens[1] == *bos_;
}

uint64_t Tokenizer::bytes() const {
  return vocabulary_.bytes() + byte_pairs_.bytes() + sentence_piece_.bytes() + specials_.bytes() +
         strips_right_.capacity() / 8;
}

}  // namespace estream
