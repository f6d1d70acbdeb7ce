// SPDX-License-Identifier: Apache-2.0
// Fuzzing the tokenizer: any bytes under any options must come back from Decode; vocabularies made of the input must
// build or be refused.
//
// Input: byte 0 chooses the pre-tokenizer (low two bits), whether the vocabulary takes tokens from the input (4),
// whether it is a SentencePiece one (8), add_special (16) and parse_special (32). A taken vocabulary is the lines up to
// the first empty one: "left right" is a merge, a line in '!', '?' or '#' a control, user-defined or unused token named
// by the rest, any other line a token. What follows is the text.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace estream {
namespace {

constexpr const char* kPreTokenizers[] = {"olmo", "qwen2", "deepseek-llm", "lfm2"};
constexpr std::string_view kOwnVocabulary =
    "!<|end|>\n?  \n?    \n?<x>\nth\nthe\nin\n\xC4\xA0t\n\xE2\x96\x81\nt h\nth e\ni n\n\xC4\xA0 t\n";

struct SpecMaker {
  VocabularySpec spec;
  std::deque<std::string> kept;

  void Add(std::string text, TokenType type) {
    spec.scores.push_back(-static_cast<float>(spec.tokens.size() % 7));
    spec.tokens.push_back(kept.emplace_back(std::move(text)));
    spec.types.push_back(type);
  }
};

void AddLine(std::string_view line, SpecMaker* maker) {
  constexpr std::pair<char, TokenType> kMarked[] = {
      {'!', TokenType::kControl}, {'?', TokenType::kUserDefined}, {'#', TokenType::kUnused}};
  for (const auto& [mark, type] : kMarked) {
    if (line[0] == mark && line.size() > 1) return maker->Add(std::string(line.substr(1)), type);
  }
  if (line.find(' ', 1) != std::string_view::npos) {
    maker->spec.merges.push_back(maker->kept.emplace_back(line));
  } else {
    maker->Add(std::string(line), TokenType::kNormal);
  }
}

// Adds the lines of `input` up to the first empty one; returns the rest.
std::string_view AddLines(std::string_view input, SpecMaker* maker) {
  while (!input.empty()) {
    const size_t end = std::min(input.find('\n'), input.size());
    const std::string_view line = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
    if (line.empty()) break;
    AddLine(line, maker);
  }
  return input;
}

void AddBytes(SpecMaker* maker) {
  for (int byte = 0; byte < 256; ++byte) {
    const char as_char = static_cast<char>(byte);
    std::string text;
    if (maker->spec.model == VocabularyModel::kSentencePiece) {
      maker->Add(fmt::format("<0x{:02X}>", byte), TokenType::kByte);
    } else {
      AppendAsLetters({&as_char, 1}, &text);
      maker->Add(text, TokenType::kNormal);
    }
  }
}

void Check(bool holds) {
  if (!holds) std::abort();
}

// A tokenizer over all bytes, "<s>" as the beginning, and the lines of `lines`, which end up at what follows them.
Result<Tokenizer> Make(VocabularyModel model, int pre, std::string_view* lines) {
  SpecMaker maker;
  maker.spec.origin = "fuzz";
  maker.spec.model = model;
  maker.spec.pre = kPreTokenizers[pre];
  AddBytes(&maker);
  maker.Add("<s>", TokenType::kControl);
  maker.spec.bos = static_cast<int32_t>(maker.spec.tokens.size()) - 1;
  maker.spec.add_bos = true;
  *lines = AddLines(*lines, &maker);
  return Tokenizer::FromSpec(maker.spec, {});
}

const Tokenizer& OwnTokenizer(VocabularyModel model, int pre) {
  static std::optional<Tokenizer> made[2][4];
  std::optional<Tokenizer>& tokenizer = made[model == VocabularyModel::kSentencePiece][pre];
  if (!tokenizer) {
    std::string_view lines = kOwnVocabulary;
    tokenizer.emplace(Make(model, pre, &lines).value());
  }
  return *tokenizer;
}

void RunOne(std::string_view input) {
  const int choice = static_cast<uint8_t>(input[0]);
  input.remove_prefix(1);
  const VocabularyModel model = (choice & 8) != 0 ? VocabularyModel::kSentencePiece : VocabularyModel::kBytePairs;
  const bool taken = (choice & 4) != 0;
  std::optional<Tokenizer> from_input;
  if (taken) {
    Result<Tokenizer> made = Make(model, choice & 3, &input);
    Check(made.ok() || !made.status().message().empty());
    if (!made.ok()) return;
    from_input.emplace(std::move(made).value());
  }
  const Tokenizer& tokenizer = taken ? *from_input : OwnTokenizer(model, choice & 3);
  const EncodeOptions options{.add_special = (choice & 16) != 0, .parse_special = (choice & 32) != 0};
  const Result<std::vector<int32_t>> tokens = tokenizer.Encode(input, options);
  Check(tokens.ok());
  for (const int32_t token : *tokens) Check(token >= 0 && static_cast<uint32_t>(token) < tokenizer.vocabulary_size());
  const std::string decoded = tokenizer.Decode(*tokens);
  const bool marks = input.find(kBlankMark) != std::string_view::npos;  // U+2581 comes back as a blank
  const bool exact = model == VocabularyModel::kBytePairs || (!taken && !marks);
  if (exact) Check(decoded == (options.add_special ? "<s>" : "") + std::string(input));
  Check(ToValidUtf8(ToPrintable(decoded)) == ToPrintable(decoded));
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) estream::RunOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
