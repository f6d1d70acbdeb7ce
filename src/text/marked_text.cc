// SPDX-License-Identifier: Apache-2.0
// Two strings of equal length, handled alike.
#include "text/marked_text.h"

#include "text/char_class.h"
#include "text/utf8.h"

namespace estream {
namespace {

// What Python's str.isspace accepts: the White_Space property and the four information separators.
bool IsPythonBlank(uint32_t code_point) {
  return ClassOf(code_point) == CharClass::kSpace || (code_point >= 0x1C && code_point <= 0x1F);
}

}  // namespace

void MarkedText::Append(std::string_view text, Origin origin) {
  text_.append(text);
  origins_.append(text.size(), static_cast<char>(origin));
}

void MarkedText::Append(const MarkedText& other) {
  text_.append(other.text_);
  origins_.append(other.origins_);
}

MarkedText MarkedText::Cut(size_t begin, size_t end) const {
  MarkedText cut;
  cut.text_ = text_.substr(begin, end - begin);
  cut.origins_ = origins_.substr(begin, end - begin);
  return cut;
}

MarkedText MarkedText::Strip(bool left, bool right, std::optional<std::string_view> characters) const {
  size_t first = text_.size(), last_end = 0;  // of the characters that stay
  for (size_t at = 0; at < text_.size();) {
    const Utf8Char c = DecodeUtf8(text_, at);
    const bool strips = characters ? characters->find(std::string_view(text_).substr(at, c.bytes)) != std::string::npos
                                   : IsPythonBlank(c.code_point);
    if (!strips && first == text_.size()) first = at;
    at += c.bytes;
    if (!strips) last_end = at;
  }
  const size_t begin = left ? first : 0;
  const size_t end = right ? last_end : text_.size();
  return begin < end ? Cut(begin, end) : MarkedText();
}

std::vector<MarkedText> MarkedText::Split(std::string_view separator) const {
  std::vector<MarkedText> parts;
  size_t begin = 0;
  for (size_t at = text_.find(separator); at != std::string::npos; at = text_.find(separator, begin)) {
    parts.push_back(Cut(begin, at));
    begin = at + separator.size();
  }
  parts.push_back(Cut(begin, text_.size()));
  return parts;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += DecodeUtf8(text, at).bytes) ++count;
  return count;
}

}  // namespace estream
