// SPDX-License-Identifier: Apache-2.0
// What a file says about its vocabulary, checked for types and lengths but not yet built into tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "format/gguf.h"

namespace estream {

// tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never found in plain text
  kUserDefined = 4,  // found in any text before everything else
  kUnused = 5,
  kByte = 6,  // "<0x0A>": one raw byte (SentencePiece)
};

enum class VocabularyModel : uint8_t {
  kBytePairs,      // "gpt2": byte-level BPE, ranks from a list of merges
  kSentencePiece,  // "llama": merges by the score of the result, unknown characters as bytes
};

// Views point into the Gguf it was read from (or whatever the maker of a spec keeps alive).
struct VocabularySpec {
  std::string origin;  // the file's name, for messages
  std::string model_name;
  VocabularyModel model = VocabularyModel::kBytePairs;
  std::optional<std::string_view> pre;
  std::vector<std::string_view> tokens;
  std::vector<TokenType> types;          // one a token; or none: all kNormal
  std::vector<float> scores;             // one a token (kSentencePiece)
  std::vector<std::string_view> merges;  // "left right" (kBytePairs)
  std::optional<int32_t> bos, eos, unknown;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// Reads tokenizer.ggml.* (and general.name as model_name).
//
// Errors: Corrupt when a key is missing, an array has the wrong element type or length, a token type or id is out of
//         range, a score is not finite; Unsupported for an unknown tokenizer model. Each names file and key.
// Cost:   O(tokens + merges).
Result<VocabularySpec> ReadVocabularySpec(const Gguf& gguf);

}  // namespace estream
