// SPDX-License-Identifier: Apache-2.0
// A view of text as characters with classes, for the pre-tokenizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/char_class.h"
#include "text/utf8.h"

namespace estream {

class Scanner {
 public:
  struct Char {
    uint32_t code_point = 0;
    uint32_t bytes = 0;  // 0 past the end
    CharClass kind = CharClass::kOther;
  };

  explicit Scanner(std::string_view text) : text_(text) {}

  std::string_view text() const { return text_; }
  size_t size() const { return text_.size(); }

  Char At(size_t at) const {
    if (at >= text_.size()) return {};
    const Utf8Char c = DecodeUtf8(text_, at);
    return {c.code_point, c.bytes, ClassOf(c.code_point)};
  }

  // The end of the run of characters from `at` that satisfy `wanted`.
  template <class Predicate>
  size_t RunEndIf(size_t at, Predicate wanted) const {
    for (Char c = At(at); c.bytes != 0 && wanted(c); c = At(at)) at += c.bytes;
    return at;
  }

  // The end of the run of characters of one class from `at`.
  size_t RunEnd(size_t at, CharClass kind) const {
    return RunEndIf(at, [kind](const Char& c) { return c.kind == kind; });
  }

 private:
  std::string_view text_;
};

}  // namespace estream
