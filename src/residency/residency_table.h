// SPDX-License-Identifier: Apache-2.0
// The residency table: which record is in which bank of one arena, and whether it may be read.                (§3.3)
//
// Life of a bank:
//   Available -(Reserve)-> Filling -(Publish)-> Ready -(Acquire)-> InUse -(last lease dropped)-> Available
//                          Filling -(Abandon, then Publish)-> Available     nobody wants what is being read
//                                               Ready -(Discard)-> Available             nobody routed to it
//                                    Filling or Ready -(TopUp)-> Filling                 slots are missing
// A bank may be filled by several reads, each of some of its slots; it is Filling while a slot is being read.
// A bank is reused only from Available, so never while a read or a lease still touches it. The owner is recorded at
// Reserve, but Find shows the mapping only while Ready or InUse. A read error stays in its bank, as Ready, and surfaces
// at Acquire, which gives the bank back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "estream/status.h"

namespace estream {

// What a bank holds, within its arena.
struct RecordKey {
  uint32_t layer = 0;
  uint32_t group = 0;

  bool operator==(const RecordKey&) const = default;
};

// Slots [first, first + count) of a bank.
struct SlotRange {
  uint32_t first = 0;
  uint32_t count = 0;

  bool operator==(const SlotRange&) const = default;
};

enum class BankState : uint8_t { kAvailable, kFilling, kReady, kInUse };

// Threads: one at a time; the Loader's mutex guards it.
// Errors:  a transition that the picture above does not have returns Internal and changes nothing.
// Cost:    O(1) each, O(slots) where slots are named; no allocation after construction.
class ResidencyTable {
 public:
  // Layers and groups bound the keys, which are looked up in a direct table.
  struct Shape {
    uint32_t banks = 0;
    uint32_t slots = 0;
    uint32_t layers = 0;
    uint32_t groups = 0;       // most groups of any layer
    uint64_t slot_stride = 0;  // bytes of a slot; the table itself does not need it
  };
  explicit ResidencyTable(const Shape& shape);

  // Available -> Filling: takes a free bank for `owner` (in no bank yet) while `slots` of it are read.
  // Returns nothing when no bank is Available.
  Result<std::optional<uint32_t>> Reserve(RecordKey owner, uint64_t epoch, SlotRange slots);
  // The outcome of a read of `slots`. When no slot is being read any more: Filling -> Ready; -> Available when the bank
  // was abandoned. The first error is the bank's.
  Status Publish(uint32_t bank, SlotRange slots, const Status& read);
  // Filling: forgets the owner; the bank is given back at the last Publish, not before.
  Status Abandon(uint32_t bank);
  // Ready -> InUse, or one more lease of an InUse bank. The bank's read error, if it has one, is returned instead and
  // the bank becomes Available.
  Status Acquire(uint32_t bank);
  // Drops a lease; the last one: InUse -> Available.
  Status Drop(uint32_t bank);
  // Ready -> Available.
  Status Discard(uint32_t bank);
  // Filling or Ready -> Filling: `slots` are read in addition, none of which is present or being read; those present
  // stay present. Not for a bank with a read error, nor an abandoned one.
  Status TopUp(uint32_t bank, SlotRange slots);
  // Filling or Ready: the bank goes over to another request.
  Status Adopt(uint32_t bank, uint64_t epoch);

  // The bank of `owner` once it may be read (Ready or InUse).
  std::optional<uint32_t> Find(RecordKey owner) const;
  // The bank of `owner` in any state but Available; abandoned ones have no owner.
  std::optional<uint32_t> BankOf(RecordKey owner) const;

  bool in_range(RecordKey key) const { return key.layer < shape_.layers && key.group < shape_.groups; }
  const Shape& shape() const { return shape_; }
  uint32_t available() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t leased() const { return leased_; }  // banks InUse

  BankState state(uint32_t bank) const { return banks_[bank].state; }
  // Nothing when Available or abandoned.
  std::optional<RecordKey> owner(uint32_t bank) const;
  uint64_t epoch(uint32_t bank) const { return banks_[bank].epoch; }
  uint32_t leases(uint32_t bank) const { return banks_[bank].leases; }
  const Status& error(uint32_t bank) const { return banks_[bank].error; }
  bool present(uint32_t bank, uint32_t slot) const { return slots_[index(bank, slot)] == Slot::kPresent; }
  // The first run of slots that are wanted (not 0) and neither present nor being read; count 0 when there is none.
  //
  //   wanted  [at most slots]
  SlotRange Missing(uint32_t bank, std::span<const uint8_t> wanted) const;

 private:
  struct Bank {
    BankState state = BankState::kAvailable;
    bool abandoned = false;
    RecordKey owner;
    uint64_t epoch = 0;
    uint32_t leases = 0;
    Status error;
  };
  enum class Slot : uint8_t { kAbsent, kFilling, kPresent };
  static constexpr uint32_t kNoBank = UINT32_MAX;

  Status Expect(uint32_t bank, BankState state, const char* transition) const;
  bool Fits(SlotRange slots) const;
  bool AllAre(Slot state, uint32_t bank, SlotRange slots) const;
  void Set(Slot state, uint32_t bank, SlotRange slots);
  void Release(uint32_t bank);
  size_t index(RecordKey key) const { return key.layer * size_t{shape_.groups} + key.group; }
  size_t index(uint32_t bank, uint32_t slot) const { return bank * size_t{shape_.slots} + slot; }

  const Shape shape_;
  std::vector<Bank> banks_;
  std::vector<Slot> slots_;        // [banks, slots]
  std::vector<uint32_t> bank_of_;  // [layers, groups]
  std::vector<uint32_t> free_;     // a stack: the bank used last is warmest
  uint32_t leased_ = 0;
};

}  // namespace estream
