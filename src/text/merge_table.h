// SPDX-License-Identifier: Apache-2.0
// The merges of a byte-pair vocabulary: which two tokens join to which third, and how early.
#pragma once

#include <cstdint>
#include <vector>

#include "estream/status.h"
#include "text/vocabulary.h"
#include "text/vocabulary_spec.h"

namespace estream {

struct Merge {
  int32_t left, right;  // tokens
  int32_t result;       // the token whose text is both texts in a row
};

class MergeTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  MergeTable() = default;

  // A merge of texts that are not all tokens can never end in a token, and is left out. Of equal merges the first
  // counts.
  //
  // Errors: Corrupt when a merge is not two texts with a space between.
  static Result<MergeTable> Build(const VocabularySpec& spec, const Vocabulary& vocabulary);

  // The rank of joining `left` and `right` (lower goes first), or kNone.   Cost: one or two probes.
  uint32_t Find(int32_t left, int32_t right) const;

  const Merge& at(uint32_t rank) const { return merges_[rank]; }
  uint32_t size() const { return static_cast<uint32_t>(merges_.size()); }
  uint64_t bytes() const { return merges_.capacity() * sizeof(Merge) + slots_.capacity() * sizeof(uint32_t); }

 private:
  size_t Slot(int32_t left, int32_t right) const;

  std::vector<Merge> merges_;    // by rank
  std::vector<uint32_t> slots_;  // open addressing, a power of two: rank, or kNone where empty
};

}  // namespace estream
