// SPDX-License-Identifier: Apache-2.0
// Text that remembers of each byte whether a template or a message wrote it, through every cut and join.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estream {

enum class Origin : char { kMessage, kTemplate };

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string_view text, Origin origin) { Append(text, origin); }

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  Origin origin(size_t at) const { return static_cast<Origin>(origins_[at]); }

  void Append(std::string_view text, Origin origin);
  void Append(const MarkedText& other);

  // The bytes [begin, end). Pre: begin <= end <= size().
  MarkedText Cut(size_t begin, size_t end) const;

  // Without the characters of `characters` (nothing: blanks as Python's str.strip() sees them) at the chosen ends.
  MarkedText Strip(bool left, bool right, std::optional<std::string_view> characters) const;

  // The parts between `separator`, which is not empty; one more than it occurs.
  std::vector<MarkedText> Split(std::string_view separator) const;

 private:
  std::string text_;
  std::string origins_;  // an Origin for each byte of text_
};

// The number of characters of `text`.
size_t CountCharacters(std::string_view text);

}  // namespace estream
