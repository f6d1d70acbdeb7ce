// SPDX-License-Identifier: Apache-2.0
// A set of small integers that knows its first and last member.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace estream {

// A bitmap. Insert and Erase are O(1); the searches look at size / 64 words at worst (a tape of 6,000 records
// is 96 words) and at none when the set is empty. Only Reset allocates.
class IndexSet {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Empties the set and makes room for members < size.
  void Reset(uint32_t size) {
    words_.assign((uint64_t{size} + 63) / 64, 0);
    count_ = 0;
  }

  bool contains(uint32_t i) const { return (words_[i / 64] >> (i % 64)) & 1; }
  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }

  void Insert(uint32_t i) {
    count_ += !contains(i);
    words_[i / 64] |= uint64_t{1} << (i % 64);
  }
  void Erase(uint32_t i) {
    count_ -= contains(i);
    words_[i / 64] &= ~(uint64_t{1} << (i % 64));
  }

  // The smallest member, or kNone.
  uint32_t First() const { return From(0); }
  // The smallest member >= begin, or kNone.
  uint32_t From(uint32_t begin) const {
    const auto words = static_cast<uint32_t>(words_.size());
    uint32_t word = begin / 64;
    if (count_ == 0 || word >= words) return kNone;
    uint64_t bits = words_[word] & (~uint64_t{0} << (begin % 64));
    while (bits == 0) {
      if (++word == words) return kNone;
      bits = words_[word];
    }
    return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  }
  // The largest member, or kNone.
  uint32_t Last() const { return Before(static_cast<uint32_t>(words_.size() * 64)); }
  // The largest member below `end`, or kNone. Pre: end is at most the size, rounded up to 64.
  uint32_t Before(uint32_t end) const {
    if (count_ == 0) return kNone;
    uint32_t word = end / 64;
    uint64_t bits = end % 64 == 0 ? 0 : words_[word] & ((uint64_t{1} << (end % 64)) - 1);
    while (bits == 0) {
      if (word == 0) return kNone;
      bits = words_[--word];
    }
    return word * 64 + 63 - static_cast<uint32_t>(std::countl_zero(bits));
  }

 private:
  std::vector<uint64_t> words_;
  uint32_t count_ = 0;
};

}  // namespace estream
