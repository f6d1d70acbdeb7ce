// SPDX-License-Identifier: Apache-2.0
// Finding special tokens in text: a trie of control, unknown and user-defined tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace estream {

class SpecialMatcher {
 public:
  struct Match {
    int32_t token = Vocabulary::kNone;
    size_t bytes = 0;
  };

  SpecialMatcher() = default;
  explicit SpecialMatcher(const Vocabulary& vocabulary);

  // The longest special token that begins at `at`: user-defined ones anywhere, control and unknown ones only when they
  // end by `reserved_end`. Pre: at < text.size().
  //
  // Cost: the bytes of the longest token that could still match; one table look-up at most positions.
  Match LongestAt(std::string_view text, size_t at, size_t reserved_end) const;

  uint64_t bytes() const { return nodes_.capacity() * sizeof(Node) + sizeof(*this); }

 private:
  static constexpr uint32_t kNoNode = 0;  // node 0 is nobody's child

  struct Node {
    uint32_t child = kNoNode, sibling = kNoNode;
    int32_t token = Vocabulary::kNone;
    uint8_t byte = 0;
    bool reserved = false;
  };

  void Add(std::string_view text, int32_t token, bool reserved);
  uint32_t Child(uint32_t node, uint8_t byte) const;
  uint32_t AddChild(uint32_t node, uint8_t byte);

  std::array<uint32_t, 256> roots_{};  // by first byte
  std::vector<Node> nodes_;
};

}  // namespace estream
