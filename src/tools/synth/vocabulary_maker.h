// SPDX-License-Identifier: Apache-2.0
// Made-up vocabularies of any size that a tokenizer loads and that encode every text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "tools/synth/model_shape.h"

namespace estream {

struct MadeVocabulary {
  std::string model;  // "gpt2" or "llama"
  std::string pre;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;       // tokenizer.ggml.token_type
  std::vector<float> scores;        // "llama" only
  std::vector<std::string> merges;  // "gpt2" only
  uint32_t bos = 0, eos = 0, padding = 0;
  bool has_bos = true;
  bool add_bos = false;
};

// The vocabulary of `shape`: as many tokens, the same kind, pre-tokenizer and special ids as the model it imitates.
// Ordinary tokens are syllables: pairs of letters, pairs of those, and both behind a blank. About two letters of
// English make a token.
//
// Pre: at least 1024 tokens.
MadeVocabulary MakeVocabulary(const ModelShape& shape);

// Sets the tokenizer.ggml.* keys.
void SetVocabulary(const MadeVocabulary& vocabulary, GgufWriter* writer);

}  // namespace estream
