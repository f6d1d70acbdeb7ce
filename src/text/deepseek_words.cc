// SPDX-License-Identifier: Apache-2.0
// The six DeepSeek patterns, applied one after another to the list of words so far.
#include "text/deepseek_words.h"

#include <algorithm>
#include <iterator>

#include "text/scanner.h"

namespace estream {
namespace {

using Char = Scanner::Char;

struct Range {
  uint32_t first, last;
};

// The letters of the second pattern, as published: cased letters of an older Unicode, some blocks left out.
constexpr Range kCased[] = {
    {0x0041, 0x005A},   {0x0061, 0x007A},   {0x00B5, 0x00B5},   {0x00C0, 0x00D6},   {0x00D8, 0x00F6},
    {0x00F8, 0x01BA},   {0x01BC, 0x01BF},   {0x01C4, 0x0293},   {0x0295, 0x02AF},   {0x0370, 0x0373},
    {0x0376, 0x0377},   {0x037B, 0x037D},   {0x037F, 0x037F},   {0x0386, 0x0386},   {0x0388, 0x038A},
    {0x038C, 0x038C},   {0x038E, 0x03A1},   {0x03A3, 0x03F5},   {0x03F7, 0x0481},   {0x048A, 0x052F},
    {0x0531, 0x0556},   {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},
    {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},
    {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},
    {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},
    {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},
    {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},
    {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},
    {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943}

};

bool IsCased(const Char& c) {
  const auto* range = std::lower_bound(std::begin(kCased), std::end(kCased), c.code_point,
                                       [](const Range& r, uint32_t code_point) { return r.last < code_point; });
  return range != std::end(kCased) && range->first <= c.code_point;
}

bool Within(const Char& c, uint32_t first, uint32_t last) { return c.code_point >= first && c.code_point <= last; }

bool IsSpace(const Char& c) { return c.kind == CharClass::kSpace; }

// [!-/:-~！-／：-～‘-‟　-。]; ':' to '~' does hold the ASCII letters. Blanks (U+3000) belong to \s? only.
bool IsPunctuation(const Char& c) {
  return !IsSpace(c) && (Within(c, '!', '/') || Within(c, ':', '~') || Within(c, 0xFF01, 0xFF0F) ||
                         Within(c, 0xFF1A, 0xFF5E) || Within(c, 0x2018, 0x201F) || Within(c, 0x3000, 0x3002));
}

// [一-龥ࠀ-一가-퟿], whose second range runs from U+0800 to U+4E00; without the blanks inside it.
bool IsAsian(const Char& c) { return !IsSpace(c) && (Within(c, 0x0800, 0x9FA5) || Within(c, 0xAC00, 0xD7FF)); }

// Matches of one pattern: the end of the match that begins at `at`, or `at` when none does.
size_t NewlineEnd(const Scanner& scan, size_t at) {
  const char c = scan.text()[at];
  return c == '\r' || c == '\n' ? at + 1 : at;
}

// \s?[wanted]+
template <bool (*wanted)(const Char&)>
size_t LedRunEnd(const Scanner& scan, size_t at) {
  const Char first = scan.At(at);
  const size_t body = IsSpace(first) ? at + first.bytes : at;
  const size_t end = scan.RunEndIf(body, wanted);
  return end == body ? at : end;
}

size_t AsianEnd(const Scanner& scan, size_t at) { return scan.RunEndIf(at, IsAsian); }

size_t NumberEnd(const Scanner& scan, size_t at) { return scan.RunEnd(at, CharClass::kNumber); }

// Cuts each word of *ends into matches of a pattern and what stands between them. Each look for a match costs no more
// than the match and one character, so the whole is linear.
template <size_t (*match_end)(const Scanner&, size_t)>
void Cut(std::string_view text, std::vector<uint32_t>* ends, std::vector<uint32_t>* scratch) {
  scratch->clear();
  size_t begin = 0;
  for (const uint32_t end : *ends) {
    const Scanner scan(text.substr(0, end));
    for (size_t at = begin; at < end;) {
      const size_t matched = match_end(scan, at);
      if (matched == at) {
        at += scan.At(at).bytes;
        continue;
      }
      if (at > begin) scratch->push_back(static_cast<uint32_t>(at));
      scratch->push_back(static_cast<uint32_t>(matched));
      begin = at = matched;
    }
    if (begin < end) scratch->push_back(end);
    begin = end;
  }
  ends->swap(*scratch);
}

// \s+$: cuts the blanks at the end of each word off.
void CutTrailingBlanks(std::string_view text, std::vector<uint32_t>* ends, std::vector<uint32_t>* scratch) {
  scratch->clear();
  size_t begin = 0;
  for (const uint32_t end : *ends) {
    const Scanner scan(text.substr(0, end));
    size_t blanks = begin;
    for (size_t at = begin; at < end;) {
      const Char c = scan.At(at);
      at += c.bytes;
      if (!IsSpace(c)) blanks = at;
    }
    if (blanks > begin && blanks < end) scratch->push_back(static_cast<uint32_t>(blanks));
    scratch->push_back(end);
    begin = end;
  }
  ends->swap(*scratch);
}

}  // namespace

void SplitDeepSeekWords(std::string_view text, std::vector<uint32_t>* ends) {
  ends->clear();
  if (text.empty()) return;
  ends->push_back(static_cast<uint32_t>(text.size()));
  std::vector<uint32_t> scratch;
  Cut<NewlineEnd>(text, ends, &scratch);                // [\r\n]
  Cut<LedRunEnd<IsCased>>(text, ends, &scratch);        // \s?[cased letters]+
  Cut<LedRunEnd<IsPunctuation>>(text, ends, &scratch);  // \s?[punctuation]+
  CutTrailingBlanks(text, ends, &scratch);              // \s+$
  Cut<AsianEnd>(text, ends, &scratch);                  // [Asian scripts]+
  Cut<NumberEnd>(text, ends, &scratch);                 // \p{N}+
}

}  // namespace estream
