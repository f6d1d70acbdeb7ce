// SPDX-License-Identifier: Apache-2.0
// Merging the symbols of a word with a heap over a linked list in one flat array.
#include "text/byte_pair_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/macros.h"
#include "text/byte_alphabet.h"

namespace estream {
namespace {

constexpr uint32_t kEnd = UINT32_MAX;  // no symbol before the first, none after the last

bool OccursInUtf8(uint8_t byte) { return byte < 0xC0 || (byte >= 0xC2 && byte <= 0xF4); }

}  // namespace

Result<BytePairEncoder> BytePairEncoder::Build(const VocabularySpec& spec, const Vocabulary& vocabulary,
                                               const PreTokenizer& pre_tokenizer) {
  BytePairEncoder encoder;
  ES_ASSIGN_OR_RETURN(encoder.merges_, MergeTable::Build(spec, vocabulary));
  encoder.pattern_ = pre_tokenizer.pattern;
  encoder.whole_words_first_ = pre_tokenizer.whole_words_first;
  for (int byte = 0; byte < 256; ++byte) {
    const char as_char = static_cast<char>(byte);
    std::string letter;
    AppendAsLetters({&as_char, 1}, &letter);
    const int32_t token = vocabulary.Find(letter);
    const bool found = token != Vocabulary::kNone && vocabulary.IsSpelled(token);
    encoder.byte_tokens_[static_cast<size_t>(byte)] = found ? token : Vocabulary::kNone;
  }
  return encoder;
}

Status BytePairEncoder::Encode(const Vocabulary& vocabulary, std::string_view text, Scratch* scratch,
                               std::vector<int32_t>* out) const {
  SplitWords(pattern_, text, &scratch->word_ends);
  uint32_t begin = 0;
  for (const uint32_t end : scratch->word_ends) {
    ES_RETURN_IF_ERROR(EncodeWord(vocabulary, text.substr(begin, end - begin), scratch, out));
    begin = end;
  }
  return Status::Ok();
}

Status BytePairEncoder::EncodeWord(const Vocabulary& vocabulary, std::string_view word, Scratch* scratch,
                                   std::vector<int32_t>* out) const {
  if (whole_words_first_ && word.size() <= vocabulary.max_token_bytes()) {
    scratch->letters.clear();
    AppendAsLetters(word, &scratch->letters);
    const int32_t token = vocabulary.Find(scratch->letters);
    if (token != Vocabulary::kNone && vocabulary.IsSpelled(token)) {
      out->push_back(token);
      return Status::Ok();
    }
  }
  ES_RETURN_IF_ERROR(FillSymbols(word, &scratch->symbols));
  MergeAll(scratch);
  for (uint32_t i = 0; i != kEnd; i = scratch->symbols[i].next) out->push_back(scratch->symbols[i].token);
  return Status::Ok();
}

Status BytePairEncoder::FillSymbols(std::string_view word, std::vector<Scratch::Symbol>* symbols) const {
  symbols->clear();
  const auto append = [&](uint8_t byte) {
    const auto i = static_cast<uint32_t>(symbols->size());
    symbols->push_back({byte_tokens_[byte], i - 1, i + 1});  // i - 1 of the first is kEnd
    return symbols->back().token != Vocabulary::kNone;
  };
  for (const char c : word) {
    const auto byte = static_cast<uint8_t>(c);
    bool known = true;
    if (byte_tokens_[byte] != Vocabulary::kNone || OccursInUtf8(byte)) {
      known = append(byte);
    } else {
      for (const uint8_t replacement : {0xEF, 0xBF, 0xBD}) known = append(replacement) && known;  // U+FFFD
    }
    if (!known) {
      return Status::InvalidArgument(fmt::format("the vocabulary has no token for byte 0x{:02x} of the text", byte));
    }
  }
  symbols->back().next = kEnd;
  return Status::Ok();
}

// Queues the merge of symbol `left` with the one after it, if there is one.
void BytePairEncoder::Offer(uint32_t left, Scratch* scratch) const {
  const Scratch::Symbol& symbol = scratch->symbols[left];
  if (symbol.next == kEnd) return;
  const uint32_t rank = merges_.Find(symbol.token, scratch->symbols[symbol.next].token);
  if (rank == MergeTable::kNone) return;
  scratch->queue.push_back(static_cast<uint64_t>(rank) << 32 | left);
  std::push_heap(scratch->queue.begin(), scratch->queue.end(), std::greater<>());
}

// Joins neighbours until none can be joined: the lowest rank first, the leftmost of equal ones.
void BytePairEncoder::MergeAll(Scratch* scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch->symbols;
  scratch->queue.clear();
  for (uint32_t i = 0; i + 1 < symbols.size(); ++i) Offer(i, scratch);
  while (!scratch->queue.empty()) {
    std::pop_heap(scratch->queue.begin(), scratch->queue.end(), std::greater<>());
    const Merge& merge = merges_.at(static_cast<uint32_t>(scratch->queue.back() >> 32));
    const auto at = static_cast<uint32_t>(scratch->queue.back());
    scratch->queue.pop_back();
    Scratch::Symbol& left = symbols[at];
    // An entry is stale when either side has been merged since; the pair of tokens says so.
    if (left.token != merge.left || left.next == kEnd || symbols[left.next].token != merge.right) continue;
    Scratch::Symbol& right = symbols[left.next];
    left.token = merge.result;
    left.next = right.next;
    right.token = Vocabulary::kNone;
    if (left.next != kEnd) symbols[left.next].previous = at;
    if (left.previous != kEnd) Offer(left.previous, scratch);
    Offer(at, scratch);
  }
}

}  // namespace estream
