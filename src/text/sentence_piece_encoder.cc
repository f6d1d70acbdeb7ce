// SPDX-License-Identifier: Apache-2.0
// Merging characters by score with a heap over a linked list, and byte fallback.
#include "text/sentence_piece_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"

namespace estream {

namespace {

constexpr uint32_t kNoSymbol = UINT32_MAX;  // no piece before the first, none after the last

bool IsMark(std::string_view text, size_t at) { return text.substr(at, kBlankMark.size()) == kBlankMark; }

// The length of the character at `at`, as its first byte claims. A broken one takes the next bytes with it, all of
// which become byte tokens then; but never a blank mark, which would not come back as a blank.
uint32_t CharacterBytes(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  const uint32_t claimed = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint32_t bytes = 1;
  while (bytes < claimed && at + bytes < text.size() && !IsMark(text, at + bytes)) ++bytes;
  return bytes;
}

int HexDigit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

// Where a blank mark follows something else: the end of the word that begins at `begin`.
size_t WordEnd(std::string_view text, size_t begin) {
  bool after_mark = true;
  for (size_t at = begin; at < text.size();) {
    const bool mark = IsMark(text, at);
    if (mark && !after_mark) return at;
    at += mark ? kBlankMark.size() : 1;
    after_mark = mark;
  }
  return text.size();
}

std::string WithBlankMarks(std::string_view text, bool lead_with_blank) {
  std::string marked;
  marked.reserve(text.size() + 8);
  if (lead_with_blank) marked += kBlankMark;
  for (const char c : text) {
    if (c == ' ') {
      marked += kBlankMark;
    } else {
      marked += c;
    }
  }
  return marked;
}

}  // namespace

// One text on its way from characters to tokens.
class SentencePieceEncoder::Merger {
 public:
  struct Piece {
    uint32_t at, bytes;  // in the text; 0 bytes once merged into the one before it
    uint32_t previous, next;
  };

  Merger(const SentencePieceEncoder& encoder, const Vocabulary& vocabulary)
      : encoder_(encoder), vocabulary_(vocabulary) {}

  // Joins neighbours of `text` until none can be joined: the highest score first, the leftmost of equal ones.
  void Run(std::string_view text) {
    text_ = text;
    CutIntoCharacters();
    for (uint32_t i = 0; i + 1 < pieces_.size(); ++i) Offer(i);
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end());
      const Candidate candidate = queue_.back();
      queue_.pop_back();
      Piece& left = pieces_[candidate.left];
      // Stale when either side has been merged since: the joint length says so.
      if (left.bytes == 0 || left.next == kNoSymbol || left.bytes + pieces_[left.next].bytes != candidate.bytes)
        continue;
      Piece& right = pieces_[left.next];
      left.bytes = candidate.bytes;
      left.next = right.next;
      right.bytes = 0;
      if (left.next != kNoSymbol) pieces_[left.next].previous = candidate.left;
      if (left.previous != kNoSymbol) Offer(left.previous);
      Offer(candidate.left);
    }
  }

  const std::vector<Piece>& pieces() const { return pieces_; }
  std::string_view Text(const Piece& piece) const { return text_.substr(piece.at, piece.bytes); }

 private:
  struct Candidate {
    float score;
    uint32_t left, bytes;
    bool operator<(const Candidate& o) const { return score < o.score || (score == o.score && left > o.left); }
  };

  void CutIntoCharacters() {
    pieces_.clear();
    for (size_t at = 0; at < text_.size();) {
      const uint32_t bytes = CharacterBytes(text_, at);
      const auto i = static_cast<uint32_t>(pieces_.size());
      pieces_.push_back({static_cast<uint32_t>(at), bytes, i - 1, i + 1});
      at += bytes;
    }
    pieces_.back().next = kNoSymbol;
  }

  void Offer(uint32_t left) {
    const Piece& piece = pieces_[left];
    if (piece.next == kNoSymbol) return;
    const uint32_t bytes = piece.bytes + pieces_[piece.next].bytes;
    const int32_t token = vocabulary_.Find(text_.substr(piece.at, bytes));
    if (token == Vocabulary::kNone || vocabulary_.IsReserved(token)) return;
    queue_.push_back({encoder_.scores_[static_cast<size_t>(token)], left, bytes});
    std::push_heap(queue_.begin(), queue_.end());
  }

  const SentencePieceEncoder& encoder_;
  const Vocabulary& vocabulary_;
  std::string_view text_;
  std::vector<Piece> pieces_;
  std::vector<Candidate> queue_;
};

Result<SentencePieceEncoder> SentencePieceEncoder::Build(const VocabularySpec& spec, const Vocabulary& vocabulary) {
  if (spec.scores.size() != vocabulary.size()) {
    return Status::Corrupt(fmt::format("{}: tokenizer.ggml.scores has {} entries, tokenizer.ggml.tokens has {}",
                                       spec.origin, spec.scores.size(), vocabulary.size()));
  }
  SentencePieceEncoder encoder;
  encoder.scores_ = spec.scores;
  encoder.unknown_ = spec.unknown.value_or(Vocabulary::kNone);
  encoder.byte_tokens_.fill(Vocabulary::kNone);
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    const int byte = ByteOfToken(vocabulary, static_cast<int32_t>(id));
    if (byte >= 0) encoder.byte_tokens_[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
    const std::string_view text = vocabulary.text(static_cast<int32_t>(id));
    const bool reserved = vocabulary.IsReserved(static_cast<int32_t>(id));
    if (!reserved && WordEnd(text, 0) != text.size()) encoder.merges_across_words_ = true;
  }
  return encoder;
}

int SentencePieceEncoder::ByteOfToken(const Vocabulary& vocabulary, int32_t token) {
  const std::string_view text = vocabulary.text(token);
  if (vocabulary.type(token) != TokenType::kByte || text.size() != 6) return -1;
  if (text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const int high = HexDigit(text[3]), low = HexDigit(text[4]);
  return high < 0 || low < 0 ? -1 : high << 4 | low;
}

Status SentencePieceEncoder::Encode(const Vocabulary& vocabulary, std::string_view text, bool lead_with_blank,
                                    std::vector<int32_t>* out) const {
  const std::string marked = WithBlankMarks(text, lead_with_blank);
  Merger merger(*this, vocabulary);
  for (size_t begin = 0; begin < marked.size();) {
    const size_t end = merges_across_words_ ? marked.size() : WordEnd(marked, begin);
    merger.Run(std::string_view(marked).substr(begin, end - begin));
    for (uint32_t i = 0; i != kNoSymbol; i = merger.pieces()[i].next) {
      const std::string_view piece = merger.Text(merger.pieces()[i]);
      const int32_t token = vocabulary.Find(piece);
      if (token != Vocabulary::kNone && !vocabulary.IsReserved(token)) {
        out->push_back(token);
      } else {
        ES_RETURN_IF_ERROR(AppendBytes(piece, out));
      }
    }
    begin = end;
  }
  return Status::Ok();
}

Status SentencePieceEncoder::AppendBytes(std::string_view text, std::vector<int32_t>* out) const {
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const int32_t token = byte_tokens_[byte] != Vocabulary::kNone ? byte_tokens_[byte] : unknown_;
    if (token == Vocabulary::kNone) {
      return Status::InvalidArgument(
          fmt::format("the vocabulary has no token for byte 0x{:02x} of the text, and no unknown token", byte));
    }
    out->push_back(token);
  }
  return Status::Ok();
}

}  // namespace estream
