// SPDX-License-Identifier: Apache-2.0
// Building the table of merges, and finding the merge of two tokens.
#include "text/merge_table.h"

#include <fmt/format.h>

#include <bit>
#include <string>

#include "format/quote.h"

namespace estream {
namespace {

uint64_t HashPair(int32_t left, int32_t right) {
  // Multiplicative hashing: the high half of the product depends on every bit of both ids.
  const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  const uint64_t mixed = (key ^ key >> 29) * 0x9E3779B97F4A7C15u;
  return mixed >> 32 ^ mixed;
}

}  // namespace

Result<MergeTable> MergeTable::Build(const VocabularySpec& spec, const Vocabulary& vocabulary) {
  MergeTable table;
  const size_t count = spec.merges.size();
  table.merges_.reserve(count);
  table.slots_.assign(std::bit_ceil(count + count / 2 + 1), kNone);  // at most two thirds full
  std::string joined;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view merge = spec.merges[i];
    const size_t space = merge.find(' ', 1);  // a first text may itself begin with a space
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return Status::Corrupt(fmt::format("{}: tokenizer.ggml.merges[{}] is {}, expected two texts with a space between",
                                         spec.origin, i, Quoted(merge)));
    }
    const int32_t left = vocabulary.Find(merge.substr(0, space));
    const int32_t right = vocabulary.Find(merge.substr(space + 1));
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const int32_t result = vocabulary.Find(joined);
    if (left == Vocabulary::kNone || right == Vocabulary::kNone || result == Vocabulary::kNone) continue;
    if (!vocabulary.IsSpelled(result)) continue;  // above all, plain text must not merge into a control token
    uint32_t& slot = table.slots_[table.Slot(left, right)];
    if (slot != kNone) continue;
    slot = static_cast<uint32_t>(table.merges_.size());
    table.merges_.push_back({left, right, result});
  }
  return table;
}

size_t MergeTable::Slot(int32_t left, int32_t right) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = HashPair(left, right) & mask;
  while (slots_[slot] != kNone && (merges_[slots_[slot]].left != left || merges_[slots_[slot]].right != right)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

uint32_t MergeTable::Find(int32_t left, int32_t right) const {
  return slots_.empty() ? kNone : slots_[Slot(left, right)];
}

}  // namespace estream
