// SPDX-License-Identifier: Apache-2.0
// Text to tokens and back, as the model's file prescribes.
//
// One rule for the beginning: a token for it is added when add_special is asked for and add_bos() holds, and never
// otherwise. Text that already begins with that token (a rendered chat template, say) then begins with it twice;
// callers find out by BeginsTwice and tell their user.
//
// Text is not normalised: "é" as one code point and as "e" with a combining accent give different tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "format/gguf.h"
#include "text/byte_pair_encoder.h"
#include "text/sentence_piece_encoder.h"
#include "text/special_matcher.h"
#include "text/vocabulary.h"
#include "text/vocabulary_spec.h"

namespace estream {

struct TokenizerOptions {
  std::string override_pre;  // --override-pre: use this pre-tokenizer instead of the file's; empty: the file's
};

struct EncodeOptions {
  bool add_special = true;     // the beginning and end tokens that the file asks for
  bool parse_special = false;  // text like "<|im_end|>" becomes the control token; never for text of users
  bool blank_prefix = true;    // the blank that SentencePiece vocabularies put in front; false to continue a text
};

// A stretch of text and whether control tokens may be recognised in it.
struct TextPart {
  std::string_view text;
  bool parse_special = false;
};

// Move-only in spirit: copies are as big as the vocabulary. Threads: const members may run at once.
class Tokenizer {
 public:
  // Errors: as ReadVocabularySpec and FromSpec.
  static Result<Tokenizer> FromGguf(const Gguf& gguf, const TokenizerOptions& options);

  // Errors: Corrupt for tokens or merges that contradict each other, or a promised beginning or end token that does not
  //         exist; Unsupported when byte pairs come with a pre-tokenizer that is unknown or not named (guessing would
  //         tokenize wrongly and silently); InvalidArgument for an override that is unknown or has nothing to override.
  static Result<Tokenizer> FromSpec(const VocabularySpec& spec, const TokenizerOptions& options);

  // The tokens of `text`, which may be any bytes. User-defined tokens are found always, control tokens only as options
  // say; of those that begin at one place the longest counts.
  //
  // Errors: InvalidArgument when the text is longer than kMaxTextBytes or a byte of it has no token.
  // Cost:   O(n log n).
  Result<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options) const;

  // The tokens of all parts in a row, as if they were one text: words may reach across parts, control tokens may not.
  // options.parse_special is not used.
  Result<std::vector<int32_t>> Encode(std::span<const TextPart> parts, const EncodeOptions& options) const;

  static constexpr size_t kMaxTextBytes = size_t{1} << 30;

  // The text of tokens, special ones included. Decode(Encode(t)) is t, bytes of beginning and end tokens aside; with
  // SentencePiece U+2581 comes back as a blank. Ids outside the vocabulary give nothing.
  std::string Decode(std::span<const int32_t> tokens) const;

  // The bytes one token stands for, possibly a part of a character. Empty for an id outside the vocabulary.
  std::string Piece(int32_t token) const;

  // The token with exactly this text in the file's own writing ("<|im_end|>"), or nothing.
  std::optional<int32_t> FindToken(std::string_view text) const;

  uint32_t vocabulary_size() const { return vocabulary_.size(); }
  std::optional<int32_t> bos() const { return bos_; }
  std::optional<int32_t> eos() const { return eos_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }

  // Whether `tokens` begins with the beginning token twice.
  bool BeginsTwice(std::span<const int32_t> tokens) const;

  // Bytes held, for the ledger.
  uint64_t bytes() const;

 private:
  struct Run;

  Status SetSpecial(const VocabularySpec& spec, bool add_bos_by_default);
  void SetStripping(const VocabularySpec& spec);
  Status EncodeParts(std::string_view text, std::span<const TextPart> parts, Run* run) const;
  Status EncodePlain(std::string_view text, Run* run) const;
  void AppendPiece(int32_t token, std::string* out) const;

  // Constant after construction.
  Vocabulary vocabulary_;
  VocabularyModel model_ = VocabularyModel::kBytePairs;
  BytePairEncoder byte_pairs_;           // kBytePairs
  SentencePieceEncoder sentence_piece_;  // kSentencePiece
  SpecialMatcher specials_;
  std::vector<bool> strips_right_;  // by token, or empty: special tokens that swallow the blanks after them
  std::optional<int32_t> bos_, eos_;
  bool add_bos_ = false, add_eos_ = false;
  bool add_blank_prefix_ = false;
};

}  // namespace estream
