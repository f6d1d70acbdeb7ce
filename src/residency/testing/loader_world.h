// SPDX-License-Identifier: Apache-2.0
// A small model for tests of the loader: a tape over a pattern file, arenas for it, and a check of leased bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "residency/loader.h"
#include "residency/testing/pattern.h"

namespace estream::testing {

// `layers` layers, each a block record (arena 1) and the groups of 8 experts, two a group (arena 0). Odd layers have
// smaller records than even ones.
struct LoaderWorld {
  static constexpr uint32_t kExperts = 8;
  static constexpr uint32_t kSlots = 2;
  static constexpr uint32_t kGroups = kExperts / kSlots;
  static constexpr uint64_t kSlotBytes = 3 * kPageBytes;
  static constexpr uint64_t kBlockBytes = 2 * kPageBytes;

  LoaderWorld(uint32_t layers, uint32_t expert_banks, uint32_t block_banks)
      : layer_count(layers),
        experts_memory(AlignedBuffer::Allocate(expert_banks * kSlots * kSlotBytes).value()),
        blocks_memory(AlignedBuffer::Allocate(block_banks * kBlockBytes).value()),
        experts(BankArena::Create(experts_memory.span(), kSlots, kSlotBytes).value()),
        blocks(BankArena::Create(blocks_memory.span(), 1, kBlockBytes).value()) {
    auto t = std::make_shared<Tape>();
    for (uint32_t l = 0; l < layers; ++l) {
      t->records.push_back(
          {.arena = 1, .layer = l, .offset = file_bytes, .record_bytes = l % 2 == 0 ? kBlockBytes : kPageBytes});
      file_bytes += t->records.back().bytes();
      const uint64_t record_bytes = l % 2 == 0 ? kSlotBytes : 2 * kPageBytes;
      t->AppendGroups(GroupLayout::Create(file_bytes, record_bytes, kExperts, kSlots).value(), 0, l, 0);
      file_bytes += kExperts * record_bytes;
    }
    tape = std::move(t);
  }

  LoaderOptions options(uint32_t depth) const {
    LoaderOptions o;
    o.arenas = {{experts, layer_count, kGroups}, {blocks, layer_count, 1}};
    o.depth = depth;
    return o;
  }
  std::vector<std::span<std::byte>> regions() const {
    std::vector<std::span<std::byte>> all;
    for (const BankArena& arena : {experts, blocks}) {
      for (uint32_t b = 0; b < arena.banks; ++b) all.push_back(arena.bank_memory(b));
    }
    return all;
  }
  // Loading in pack order as early as banks allow.
  WalkOptions stream(uint64_t epoch) const { return {.epoch = epoch, .early_order = tape->RoutedInOrder()}; }

  const TapeRecord& record(const RecordId& id) const {
    const auto found = std::find_if(tape->records.begin(), tape->records.end(), [&id](const TapeRecord& r) {
      return r.arena == id.arena && r.layer == id.layer && r.group == id.group;
    });
    ES_CHECK(found != tape->records.end());
    return *found;
  }
  // Whether the lease holds exactly its record.
  bool Holds(const BankLease& lease, const RecordId& id) const {
    return lease.memory().size() == record(id).bytes() && HasPattern(lease.memory(), record(id).offset);
  }

  uint32_t layer_count;
  AlignedBuffer experts_memory;
  AlignedBuffer blocks_memory;
  BankArena experts;
  BankArena blocks;
  uint64_t file_bytes = 0;
  std::shared_ptr<const Tape> tape;
};

}  // namespace estream::testing
