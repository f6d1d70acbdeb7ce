// SPDX-License-Identifier: Apache-2.0
// The scanners of GPT-2 and Llama 3 style patterns, and the table of names.
#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/deepseek_words.h"
#include "text/scanner.h"

namespace estream {
namespace {

constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", WordPattern::kGpt2, false, false},     {"olmo", WordPattern::kGpt2, false, false},
    {"qwen2", WordPattern::kQwen2, false, false},    {"deepseek-llm", WordPattern::kDeepSeekLlm, false, false},
    {"llama-bpe", WordPattern::kLlama3, true, true}, {"llama3", WordPattern::kLlama3, true, true},
    {"lfm2", WordPattern::kLlama3, true, true},
};

// The length of 's 't 'm 'd 're 've 'll at `at`, or 0.
uint32_t ContractionBytes(std::string_view text, size_t at, bool any_case) {
  const auto letter = [&](size_t i) -> char {
    if (at + i >= text.size()) return 0;
    const char c = text[at + i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  if (text[at] != '\'') return 0;
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

// \s+(?!\S)|\s+ at a run of blanks: all of it at the end of the text, else all but its last, which may lead a word.
size_t BlanksEnd(size_t at, size_t last, size_t end, size_t text_size) {
  return end == text_size || last == at ? end : last;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t Gpt2WordEnd(const Scanner& scan, size_t at) {
  if (const uint32_t bytes = ContractionBytes(scan.text(), at, false); bytes != 0) return at + bytes;
  const size_t body = scan.text()[at] == ' ' ? at + 1 : at;
  if (const CharClass kind = scan.At(body).kind; body < scan.size() && kind != CharClass::kSpace) {
    return scan.RunEnd(body, kind);
  }
  size_t end = at, last = at;
  for (Scanner::Char c = scan.At(at); c.bytes != 0 && c.kind == CharClass::kSpace; c = scan.At(end)) {
    last = end;
    end += c.bytes;
  }
  return BlanksEnd(at, last, end, scan.size());
}

size_t NumberEnd(const Scanner& scan, size_t at, uint32_t max_digits) {
  for (uint32_t digits = 0; digits < max_digits; ++digits) {
    const Scanner::Char c = scan.At(at);
    if (c.bytes == 0 || c.kind != CharClass::kNumber) break;
    at += c.bytes;
  }
  return at;
}

bool IsNewline(const Scanner::Char& c) { return c.code_point == '\r' || c.code_point == '\n'; }

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max_digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
//   |\s+(?!\S)|\s+
size_t Llama3WordEnd(const Scanner& scan, size_t at, uint32_t max_digits) {
  if (const uint32_t bytes = ContractionBytes(scan.text(), at, true); bytes != 0) return at + bytes;
  const Scanner::Char first = scan.At(at);
  const size_t second_at = at + first.bytes;
  const Scanner::Char second = scan.At(second_at);
  if (first.kind == CharClass::kNumber) return NumberEnd(scan, at, max_digits);
  if (first.kind == CharClass::kLetter || (!IsNewline(first) && second.kind == CharClass::kLetter)) {
    return scan.RunEnd(second_at, CharClass::kLetter);
  }
  const bool led = first.code_point == ' ' && second.bytes != 0;
  if ((led ? second : first).kind == CharClass::kOther) {
    size_t end = scan.RunEnd(second_at, CharClass::kOther);
    while (IsNewline(scan.At(end))) ++end;
    return end;
  }
  size_t end = at, last = at, after_newline = 0;
  for (Scanner::Char c = first; c.bytes != 0 && c.kind == CharClass::kSpace; c = scan.At(end)) {
    last = end;
    end += c.bytes;
    if (IsNewline(c)) after_newline = end;
  }
  return after_newline != 0 ? after_newline : BlanksEnd(at, last, end, scan.size());
}

}  // namespace

const PreTokenizer* FindPreTokenizer(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers),
                                   [&](const PreTokenizer& p) { return p.name == name; });
  return found == std::end(kPreTokenizers) ? nullptr : found;
}

std::string PreTokenizerNames() {
  std::string names;
  for (const PreTokenizer& p : kPreTokenizers) {
    if (!names.empty()) names += ", ";
    names += p.name;
  }
  return names;
}

void SplitWords(WordPattern pattern, std::string_view text, std::vector<uint32_t>* ends) {
  ends->clear();
  if (pattern == WordPattern::kDeepSeekLlm) return SplitDeepSeekWords(text, ends);
  const Scanner scan(text);
  for (size_t at = 0; at < text.size();) {
    switch (pattern) {
      case WordPattern::kGpt2:
        at = Gpt2WordEnd(scan, at);
        break;
      case WordPattern::kLlama3:
        at = Llama3WordEnd(scan, at, 3);
        break;
      case WordPattern::kQwen2:
      case WordPattern::kDeepSeekLlm:  // handled above
        at = Llama3WordEnd(scan, at, 1);
        break;
    }
    ends->push_back(static_cast<uint32_t>(at));
  }
}

}  // namespace estream
