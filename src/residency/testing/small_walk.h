// SPDX-License-Identifier: Apache-2.0
// A walk over a small tape, for tests of one rule at a time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "residency/tape_walk.h"

namespace estream::testing {

inline constexpr uint32_t kLayers = 3;
inline constexpr uint32_t kGroups = 4;
inline constexpr uint32_t kSlots = 2;

// Three layers of four groups of two experts: tape index = 4 · layer + group. With `blocks` a block record stands
// before each layer's groups: index = 5 · layer, then 5 · layer + 1 + group.
inline std::shared_ptr<Tape> MakeTape(bool blocks = false) {
  auto tape = std::make_shared<Tape>();
  uint64_t offset = 0;
  for (uint32_t l = 0; l < kLayers; ++l) {
    if (blocks) {
      tape->records.push_back({.arena = 1, .layer = l, .offset = offset, .record_bytes = 4 * kPageBytes});
      offset += tape->records.back().bytes();
    }
    tape->AppendGroups({offset, kPageBytes, kGroups * kSlots, kSlots}, 0, l, 0);
    offset += kGroups * kSlots * kPageBytes;
  }
  return tape;
}

class Walk {
 public:
  explicit Walk(uint32_t banks, uint32_t block_banks = 0)
      : walk_(block_banks == 0 ? std::vector{Experts(banks)} : std::vector{Experts(banks), Blocks(block_banks)}),
        tape_(MakeTape(block_banks > 0)) {}

  TapeWalk* operator->() { return &walk_; }
  const std::shared_ptr<Tape>& tape() const { return tape_; }

  void Start(WalkOptions options) {
    options.epoch = ++epoch_;
    const Status status = walk_.Start(tape_, std::move(options));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  WalkOptions InOrder() const { return {.early_order = tape_->RoutedInOrder()}; }

  // The records that would be read now, all at once; they stay in flight.
  std::vector<uint32_t> ReadAll() {
    std::vector<uint32_t> records;
    while (const auto read = walk_.Next()) {
      reads_.push_back(*read);
      records.push_back(read->record);
    }
    return records;
  }
  const std::vector<PlannedRead>& reads() const { return reads_; }
  void CompleteAll(const Status& status = Status::Ok()) {
    for (const PlannedRead& read : reads_) walk_.Complete(read, status);
    reads_.clear();
  }
  void Decide(uint32_t layer, std::vector<uint32_t> routes) {
    const Status status = walk_.Decide(layer, routes);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Whether the record could be leased; gives it back at once.
  bool Use(uint32_t record) {
    const auto bank = walk_.TryAcquire(record);
    if (!bank.ok() || !bank->has_value()) return false;
    walk_.Drop(tape_->records[record].arena, **bank);
    return true;
  }

 private:
  static ResidencyTable::Shape Experts(uint32_t banks) { return {banks, kSlots, kLayers, kGroups, kPageBytes}; }
  static ResidencyTable::Shape Blocks(uint32_t banks) { return {banks, 1, kLayers, 1, 4 * kPageBytes}; }

  TapeWalk walk_;
  std::shared_ptr<Tape> tape_;
  std::vector<PlannedRead> reads_;
  uint64_t epoch_ = 0;
};

using Records = std::vector<uint32_t>;
inline const std::vector<uint32_t> kAllRouted(kGroups* kSlots, 1);

}  // namespace estream::testing
