// SPDX-License-Identifier: Apache-2.0
// SentencePiece BPE: the whole text is one word, neighbours join by the score of what they make, and what is left
// unknown becomes byte tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "text/vocabulary.h"

namespace estream {

// The character that stands for a blank in SentencePiece vocabularies, U+2581.
inline constexpr std::string_view kBlankMark = "\xE2\x96\x81";

class SentencePieceEncoder {
 public:
  SentencePieceEncoder() = default;

  static Result<SentencePieceEncoder> Build(const VocabularySpec& spec, const Vocabulary& vocabulary);

  // Appends the tokens of `text`, which holds no special tokens, with a blank in front of it if `lead_with_blank`.
  //
  //   vocabulary  the one given to Build
  //
  // Errors: InvalidArgument when the vocabulary has neither a token for a byte of the text nor an unknown token.
  // Cost:   O(n log n), and about 40 bytes for each byte of a word, for n = the longest word: when no token reaches
  // across
  //         the beginning of a word, words are merged one by one, which changes nothing else.
  Status Encode(const Vocabulary& vocabulary, std::string_view text, bool lead_with_blank,
                std::vector<int32_t>* out) const;

  // The byte that a byte token stands for; -1 for other tokens.
  static int ByteOfToken(const Vocabulary& vocabulary, int32_t token);

  uint64_t bytes() const { return scores_.capacity() * sizeof(float) + sizeof(*this); }

 private:
  class Merger;

  Status AppendBytes(std::string_view text, std::vector<int32_t>* out) const;

  std::vector<float> scores_;
  std::array<int32_t, 256> byte_tokens_{};  // Vocabulary::kNone where there is none
  int32_t unknown_ = Vocabulary::kNone;
  bool merges_across_words_ = false;  // some token has a blank mark after another character
};

}  // namespace estream
