// SPDX-License-Identifier: Apache-2.0
// Byte-pair vocabularies: 256 letters of the byte alphabet, then the products of merges, in the order of the merges.
// SentencePiece ones: bytes, then pieces by falling score, single characters last.
#include "tools/synth/vocabulary_maker.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string_view>

#include "base/macros.h"
#include "text/byte_alphabet.h"
#include "text/sentence_piece_encoder.h"
#include "text/vocabulary_spec.h"

namespace estream {
namespace {

constexpr std::string_view kLetters = "etaoinsrhldcumfpgwybvkxjqz";  // most frequent first

// A token at a fixed id.
struct Special {
  uint32_t id;
  const char* text;
  TokenType type;
};

// Syllables in the order of how frequent their letters are. Both kinds of vocabulary take a prefix of: 676 pairs of
// letters, those behind a blank, single letters behind a blank, pairs of pairs.
//   blank     what stands for a blank
//   use       called with both halves until it says no
void ForEachSyllable(const std::string& blank, const std::function<bool(const std::string&, const std::string&)>& use) {
  const size_t n = kLetters.size();
  std::vector<std::string> pairs;
  for (size_t sum = 0; sum <= 2 * (n - 1); ++sum) {
    for (size_t i = sum < n ? 0 : sum - n + 1; i < n && i <= sum; ++i) {
      const std::string left(1, kLetters[i]), right(1, kLetters[sum - i]);
      pairs.push_back(left + right);
      if (!use(left, right)) return;
    }
  }
  for (const std::string& pair : pairs) {
    if (!use(blank, pair)) return;
  }
  for (const char letter : kLetters) {
    if (!use(blank, std::string(1, letter))) return;
  }
  const size_t m = pairs.size();
  for (size_t sum = 0; sum <= 2 * (m - 1); ++sum) {
    for (size_t i = sum < m ? 0 : sum - m + 1; i < m && i <= sum; ++i) {
      if (!use(pairs[i], pairs[sum - i])) return;
    }
  }
}

// Puts `specials` at their ids (those beyond a smaller vocabulary at its end) and hands out the other ids in order.
class IdSpace {
 public:
  IdSpace(uint32_t size, const std::vector<Special>& specials, MadeVocabulary* vocabulary)
      : vocabulary_(*vocabulary), free_(size) {
    vocabulary_.tokens.resize(size);
    vocabulary_.types.resize(size, static_cast<int32_t>(TokenType::kNormal));
    uint32_t end = size;
    for (size_t s = specials.size(); s-- > 0;) {
      const Special& special = specials[s];
      const uint32_t id = special.id < end ? special.id : --end;
      ES_CHECK(vocabulary_.tokens[id].empty());
      Set(id, special.text, special.type);
      ids_.insert(ids_.begin(), id);
    }
  }

  // The id that special number `index` got.
  uint32_t id(size_t index) const { return ids_[index]; }
  uint32_t free() const { return free_; }

  // Pre: free() > 0.
  void Add(const std::string& text, TokenType type = TokenType::kNormal) {
    while (!vocabulary_.tokens[next_].empty()) ++next_;
    Set(next_, text, type);
  }

 private:
  void Set(uint32_t id, const std::string& text, TokenType type) {
    vocabulary_.tokens[id] = text;
    vocabulary_.types[id] = static_cast<int32_t>(type);
    --free_;
  }

  MadeVocabulary& vocabulary_;
  std::vector<uint32_t> ids_;
  uint32_t free_;
  uint32_t next_ = 0;
};

void AddBytePairs(IdSpace* ids, std::vector<std::string>* merges) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string letter;
    const char c = static_cast<char>(byte);
    AppendAsLetters(std::string_view(&c, 1), &letter);
    ids->Add(letter);
  }
  std::string blank;
  AppendAsLetters(" ", &blank);
  ForEachSyllable(blank, [&](const std::string& left, const std::string& right) {
    if (ids->free() == 0) return false;
    ids->Add(left + right);
    merges->push_back(left + " " + right);
    return true;
  });
}

constexpr TokenType kControl = TokenType::kControl;

MadeVocabulary OlmoeVocabulary(uint32_t size) {
  MadeVocabulary v;
  v.model = "gpt2";
  v.pre = "olmo";
  IdSpace ids(size, {{1, "<|padding|>", kControl}, {50279, "<|endoftext|>", kControl}}, &v);
  v.has_bos = false;
  v.eos = ids.id(1);
  v.padding = ids.id(0);
  AddBytePairs(&ids, &v.merges);
  return v;
}

MadeVocabulary LfmVocabulary(uint32_t size) {
  MadeVocabulary v;
  v.model = "gpt2";
  v.pre = "lfm2";
  IdSpace ids(size,
              {{0, "<|pad|>", kControl},
               {1, "<|startoftext|>", kControl},
               {2, "<|endoftext|>", kControl},
               {6, "<|im_start|>", kControl},
               {7, "<|im_end|>", kControl}},
              &v);
  v.bos = ids.id(1);
  v.eos = ids.id(4);
  v.padding = ids.id(0);
  v.add_bos = true;
  AddBytePairs(&ids, &v.merges);
  return v;
}

MadeVocabulary DeepseekVocabulary(uint32_t size) {
  MadeVocabulary v;
  v.model = "gpt2";
  v.pre = "deepseek-llm";
  IdSpace ids(size, {{100000, "<|begin_of_sentence|>", kControl}, {100001, "<|end_of_sentence|>", kControl}}, &v);
  v.bos = ids.id(0);
  v.eos = v.padding = ids.id(1);
  v.add_bos = true;
  AddBytePairs(&ids, &v.merges);
  return v;
}

MadeVocabulary QwenVocabulary(uint32_t size) {
  MadeVocabulary v;
  v.model = "gpt2";
  v.pre = "qwen2";
  IdSpace ids(
      size, {{151643, "<|endoftext|>", kControl}, {151644, "<|im_start|>", kControl}, {151645, "<|im_end|>", kControl}},
      &v);
  v.bos = v.padding = ids.id(0);
  v.eos = ids.id(2);
  AddBytePairs(&ids, &v.merges);
  return v;
}

MadeVocabulary MixtralVocabulary(uint32_t size) {
  MadeVocabulary v;
  v.model = "llama";
  v.pre = "default";
  IdSpace ids(size, {{0, "<unk>", TokenType::kUnknown}, {1, "<s>", kControl}, {2, "</s>", kControl}}, &v);
  v.bos = 1;
  v.eos = 2;
  v.add_bos = true;
  for (uint32_t byte = 0; byte < 256; ++byte) ids.Add(fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  const std::string blank(kBlankMark);
  std::vector<std::string> singles = {blank};
  for (char c = '!'; c <= '~'; ++c) singles.emplace_back(1, c);
  ForEachSyllable(blank, [&](const std::string& left, const std::string& right) {
    if (ids.free() == singles.size()) return false;
    ids.Add(left + right);
    return true;
  });
  for (const std::string& single : singles) ids.Add(single);
  v.scores.resize(size);
  for (uint32_t id = 259; id < size; ++id) v.scores[id] = 259.0f - static_cast<float>(id);
  return v;
}

}  // namespace

MadeVocabulary MakeVocabulary(const ModelShape& shape) {
  ES_CHECK(shape.vocabulary >= 1024);
  switch (shape.family) {
    case SynthFamily::kOlmoe:
      return OlmoeVocabulary(shape.vocabulary);
    case SynthFamily::kLfm2moe:
      return LfmVocabulary(shape.vocabulary);
    case SynthFamily::kDeepseek2:
      return DeepseekVocabulary(shape.vocabulary);
    case SynthFamily::kQwen3moe:
      return QwenVocabulary(shape.vocabulary);
    case SynthFamily::kMixtral:
      return MixtralVocabulary(shape.vocabulary);
  }
  return {};
}

void SetVocabulary(const MadeVocabulary& v, GgufWriter* writer) {
  writer->SetString("tokenizer.ggml.model", v.model);
  writer->SetString("tokenizer.ggml.pre", v.pre);
  writer->SetStrings("tokenizer.ggml.tokens", v.tokens);
  if (!v.scores.empty()) writer->SetArray<float>("tokenizer.ggml.scores", v.scores);
  writer->SetArray<int32_t>("tokenizer.ggml.token_type", v.types);
  if (v.model == "gpt2") writer->SetStrings("tokenizer.ggml.merges", v.merges);
  if (v.has_bos) writer->SetU32("tokenizer.ggml.bos_token_id", v.bos);
  writer->SetU32("tokenizer.ggml.eos_token_id", v.eos);
  if (v.model == "llama") {
    writer->SetU32("tokenizer.ggml.unknown_token_id", 0);
  } else {
    writer->SetU32("tokenizer.ggml.padding_token_id", v.padding);
  }
  writer->SetBool("tokenizer.ggml.add_bos_token", v.add_bos);
  writer->SetBool("tokenizer.ggml.add_eos_token", false);
}

}  // namespace estream
