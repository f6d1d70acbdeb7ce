// SPDX-License-Identifier: Apache-2.0
// Building the trie of special tokens, and walking it.
#include "text/special_matcher.h"

namespace estream {

SpecialMatcher::SpecialMatcher(const Vocabulary& vocabulary) {
  nodes_.emplace_back();
  for (uint32_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const bool reserved = vocabulary.IsReserved(id);
    if (reserved || vocabulary.type(id) == TokenType::kUserDefined) Add(vocabulary.text(id), id, reserved);
  }
  nodes_.shrink_to_fit();
}

void SpecialMatcher::Add(std::string_view text, int32_t token, bool reserved) {
  if (text.empty()) return;
  uint32_t& root = roots_[static_cast<uint8_t>(text[0])];
  if (root == kNoNode) {
    root = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  uint32_t node = root;
  for (const char c : text.substr(1)) node = AddChild(node, static_cast<uint8_t>(c));
  nodes_[node].token = token;
  nodes_[node].reserved = reserved;
}

uint32_t SpecialMatcher::Child(uint32_t node, uint8_t byte) const {
  uint32_t child = nodes_[node].child;
  while (child != kNoNode && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

uint32_t SpecialMatcher::AddChild(uint32_t node, uint8_t byte) {
  if (const uint32_t child = Child(node, byte); child != kNoNode) return child;
  const auto added = static_cast<uint32_t>(nodes_.size());
  nodes_.emplace_back();
  nodes_[added].byte = byte;
  nodes_[added].sibling = nodes_[node].child;
  nodes_[node].child = added;
  return added;
}

SpecialMatcher::Match SpecialMatcher::LongestAt(std::string_view text, size_t at, size_t reserved_end) const {
  Match longest;
  uint32_t node = roots_[static_cast<uint8_t>(text[at])];
  for (size_t end = at + 1; node != kNoNode; ++end) {
    const Node& here = nodes_[node];
    if (here.token != Vocabulary::kNone && (!here.reserved || end <= reserved_end)) longest = {here.token, end - at};
    if (end == text.size()) break;
    node = Child(node, static_cast<uint8_t>(text[end]));
  }
  return longest;
}

}  // namespace estream
