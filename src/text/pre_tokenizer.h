// SPDX-License-Identifier: Apache-2.0
// Cutting text into the words inside which byte pairs may merge: the published patterns, written as linear scanners.
//
// A pattern is what tokenizer.ggml.pre names. All scan forward over characters with a bounded look-ahead and no
// recursion, so that no text is slow and none exhausts the stack. A byte of no well-formed UTF-8 sequence counts as one
// character of class kOther.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace estream {

enum class WordPattern : uint8_t { kGpt2, kLlama3, kQwen2, kDeepSeekLlm };

struct PreTokenizer {
  std::string_view name;  // as in tokenizer.ggml.pre
  WordPattern pattern;
  bool whole_words_first;  // a word that is itself in the vocabulary is taken before any merging
  bool adds_bos;           // unless the file says otherwise
};

// The pre-tokenizer of that name, or null.
const PreTokenizer* FindPreTokenizer(std::string_view name);

// All names, for messages: "gpt-2, olmo, ...".
std::string PreTokenizerNames();

// Cuts `text` into words that cover all of it: word i is [ends[i - 1], ends[i]), none is empty. Replaces *ends.
//
// Pre:  text is shorter than 4 GiB.
// Cost: O(text) time, 4 bytes a word.
void SplitWords(WordPattern pattern, std::string_view text, std::vector<uint32_t>* ends);

}  // namespace estream
