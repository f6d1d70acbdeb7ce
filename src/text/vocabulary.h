// SPDX-License-Identifier: Apache-2.0
// The tokens of a vocabulary in flat tables: texts in one blob, a hash from text to id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "text/vocabulary_spec.h"

namespace estream {

class Vocabulary {
 public:
  static constexpr int32_t kNone = -1;

  Vocabulary() = default;

  // Copies everything out of `spec`. Tokens that every chat format uses as markers but whose type is not control
  // ("<|im_end|>", "<|fim_prefix|>", ...) become control tokens, so that plain text never yields them.
  //
  // Errors: Corrupt when two tokens are equal or one is longer than kMaxTokenBytes.
  // Cost:   O(bytes of all tokens); about 12 bytes a token on top of its text.
  static Result<Vocabulary> Build(const VocabularySpec& spec);

  // Longer than any token in use (1,024 bytes), and the bound of every search for one in a text.
  static constexpr size_t kMaxTokenBytes = 8192;

  uint32_t size() const { return static_cast<uint32_t>(types_.size()); }

  // The text as the file writes it. Pre: 0 <= id < size().
  std::string_view text(int32_t id) const {
    const size_t i = static_cast<size_t>(id);
    return {blob_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
  }
  TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }

  // Whether plain text must never yield this token: control and unknown.
  bool IsReserved(int32_t id) const { return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown; }

  // Whether merging bytes may yield this token: not reserved, and read as letters of the byte alphabet it means what it
  // means read as plain text. (DeepSeek's user-defined token "\u00ff" is that character; byte 0xFF, whose letter it is,
  // is another thing.)
  bool IsSpelled(int32_t id) const;

  // The token with this text, or kNone.   Cost: O(text), one or two probes.
  int32_t Find(std::string_view text) const;

  size_t max_token_bytes() const { return max_token_bytes_; }
  uint64_t bytes() const;

 private:
  Status Insert(const VocabularySpec& spec, int32_t id);
  void ReserveMarkers();

  std::vector<char> blob_;
  std::vector<uint32_t> offsets_;  // size() + 1
  std::vector<TokenType> types_;
  std::vector<int32_t> slots_;  // open addressing, a power of two; kNone where empty
  size_t max_token_bytes_ = 0;
};

}  // namespace estream
