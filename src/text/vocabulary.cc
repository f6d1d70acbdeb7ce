// SPDX-License-Identifier: Apache-2.0
// Building the flat token tables, and finding tokens by text.
#include "text/vocabulary.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

// Markers that files sometimes declare as ordinary or user-defined tokens. Left like that, the text of a user could end
// a turn or open a fill-in-the-middle section.
constexpr std::string_view kMarkers[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<eos>",
    "<end_of_utterance>",
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<|file_sep|>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "<\xEF\xBD\x9C"
    "fim\xE2\x96\x81"
    "begin\xEF\xBD\x9C>",
    "<\xEF\xBD\x9C"
    "fim\xE2\x96\x81hole\xEF\xBD\x9C>",
    "<\xEF\xBD\x9C"
    "fim\xE2\x96\x81"
    "end\xEF\xBD\x9C>",
};

uint64_t Hash(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace

Result<Vocabulary> Vocabulary::Build(const VocabularySpec& spec) {
  Vocabulary vocabulary;
  const size_t count = spec.tokens.size();
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = spec.tokens[i].size();
    if (bytes > kMaxTokenBytes) {
      return Status::Corrupt(fmt::format("{}: tokenizer.ggml.tokens[{}] is {} bytes long, at most {} are supported",
                                         spec.origin, i, bytes, kMaxTokenBytes));
    }
    total += bytes;
    vocabulary.max_token_bytes_ = std::max(vocabulary.max_token_bytes_, bytes);
  }
  if (total > UINT32_MAX) {
    return Status::Corrupt(
        fmt::format("{}: tokenizer.ggml.tokens holds {} bytes, at most 4 GiB are supported", spec.origin, total));
  }
  vocabulary.blob_.reserve(total);
  vocabulary.offsets_.reserve(count + 1);
  vocabulary.offsets_.push_back(0);
  vocabulary.types_ = spec.types;
  vocabulary.types_.resize(count, TokenType::kNormal);
  vocabulary.slots_.assign(std::bit_ceil(count + count / 2 + 1), kNone);  // at most two thirds full
  for (size_t i = 0; i < count; ++i) ES_RETURN_IF_ERROR(vocabulary.Insert(spec, static_cast<int32_t>(i)));
  vocabulary.ReserveMarkers();
  return vocabulary;
}

Status Vocabulary::Insert(const VocabularySpec& spec, int32_t id) {
  const std::string_view text = spec.tokens[static_cast<size_t>(id)];
  blob_.insert(blob_.end(), text.begin(), text.end());
  offsets_.push_back(static_cast<uint32_t>(blob_.size()));
  if (text.empty()) return Status::Ok();  // a gap in the numbering: never found
  const size_t mask = slots_.size() - 1;
  size_t slot = Hash(text) & mask;
  for (; slots_[slot] != kNone; slot = (slot + 1) & mask) {
    if (this->text(slots_[slot]) == text) {
      return Status::Corrupt(fmt::format("{}: tokenizer.ggml.tokens[{}] and [{}] are both {}", spec.origin,
                                         slots_[slot], id, Quoted(text)));
    }
  }
  slots_[slot] = id;
  return Status::Ok();
}

void Vocabulary::ReserveMarkers() {
  for (const std::string_view marker : kMarkers) {
    if (const int32_t id = Find(marker); id != kNone) types_[static_cast<size_t>(id)] = TokenType::kControl;
  }
}

bool Vocabulary::IsSpelled(int32_t id) const {
  if (type(id) == TokenType::kNormal) return true;
  const std::string_view letters = text(id);
  return !IsReserved(id) && std::all_of(letters.begin(), letters.end(), [](char c) { return c > ' ' && c <= '~'; });
}

int32_t Vocabulary::Find(std::string_view text) const {
  if (text.empty() || text.size() > max_token_bytes_) return kNone;
  const size_t mask = slots_.size() - 1;
  for (size_t slot = Hash(text) & mask; slots_[slot] != kNone; slot = (slot + 1) & mask) {
    if (this->text(slots_[slot]) == text) return slots_[slot];
  }
  return kNone;
}

uint64_t Vocabulary::bytes() const {
  return blob_.capacity() + offsets_.capacity() * sizeof(uint32_t) + types_.capacity() +
         slots_.capacity() * sizeof(int32_t);
}

}  // namespace estream
