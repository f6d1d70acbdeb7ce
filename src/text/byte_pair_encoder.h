// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE: words of a pre-tokenizer, bytes as first symbols, the earliest merge first.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "text/merge_table.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace estream {

class BytePairEncoder {
 public:
  // Room for one call, reused from word to word; at most about 40 bytes for each byte of the longest word.
  struct Scratch {
    struct Symbol {
      int32_t token;  // Vocabulary::kNone once merged into the one before it
      uint32_t previous, next;
    };
    std::vector<uint32_t> word_ends;
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // a heap of rank << 32 | left symbol, smallest first
    std::string letters;
  };

  BytePairEncoder() = default;

  static Result<BytePairEncoder> Build(const VocabularySpec& spec, const Vocabulary& vocabulary,
                                       const PreTokenizer& pre_tokenizer);

  // Appends the tokens of `text`, which holds no special tokens. Any bytes will do: what is not UTF-8 is merged byte by
  // byte, so that the tokens spell exactly `text`. Bytes that occur in no UTF-8 text at all (0xC0, 0xC1, 0xF5 to 0xFF)
  // become U+FFFD in vocabularies that leave them out.
  //
  //   vocabulary  the one given to Build
  //
  // Errors: InvalidArgument when the vocabulary lacks a byte of the text; *out then holds some tokens of it.
  // Cost:   O(n log n) for n = the longest word, O(text) otherwise.
  Status Encode(const Vocabulary& vocabulary, std::string_view text, Scratch* scratch, std::vector<int32_t>* out) const;

  uint64_t bytes() const { return merges_.bytes() + sizeof(*this); }

 private:
  Status EncodeWord(const Vocabulary& vocabulary, std::string_view word, Scratch* scratch,
                    std::vector<int32_t>* out) const;
  Status FillSymbols(std::string_view word, std::vector<Scratch::Symbol>* symbols) const;
  void Offer(uint32_t left, Scratch* scratch) const;
  void MergeAll(Scratch* scratch) const;

  MergeTable merges_;
  std::array<int32_t, 256> byte_tokens_{};  // Vocabulary::kNone where the vocabulary has none
  WordPattern pattern_ = WordPattern::kGpt2;
  bool whole_words_first_ = false;
};

}  // namespace estream
