// SPDX-License-Identifier: Apache-2.0
// Which record is read next, into which bank: the rules of streaming, without threads, files or clocks.      (§3.4)
//
// A record of the tape is Undecided (routed, before Decide), Needed or Unneeded; and it is unread, in a bank, or used.
// The order of reads:
//   1. what somebody waits for (Demand), earliest first;
//   2. per arena its earliest Needed unread record, or, when it has none, the first Undecided one of the early order;
//      among the arenas the one whose record comes first on the tape and can have a bank.
// Liveness:
//   - No Undecided record is passed over for good: once Needed, it is the earliest unread one and goes first.
//   - A Needed record without a free bank takes the Ready bank that is farthest ahead on the tape (a misprediction, or
//     one kept from another request); a demanded one takes any Ready bank but those of demanded records. Filling and
//     leased banks are never taken: they become Ready or Available first.
//   - So every Demand ends, if whoever demands holds no bank of that arena meanwhile (or if banks are left over), and
//     every read ends. Early reads hold nothing that cannot be taken back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "estream/status.h"
#include "residency/index_set.h"
#include "residency/residency_table.h"
#include "residency/tape.h"

namespace estream {

// Names a record on any tape.
struct RecordId {
  uint32_t arena = 0;
  uint32_t layer = 0;
  uint32_t group = 0;
};

// How a tape is walked: the schedules of §3.4 are values of this.
struct WalkOptions {
  static constexpr uint32_t kNoHorizon = UINT32_MAX;

  uint64_t epoch = 0;  // of the request; above 0, grows from Start to Start
  // The routed records that may be read before Decide, in this order: Tape::RoutedInOrder for the paper's early
  // loading, hot ones first for a measured order, empty for loading after routing.
  std::vector<uint32_t> early_order = {};
  // Records from this tape index on are read only when demanded: 0 is on-demand, the end of a layer is layer-local.
  uint32_t horizon = kNoHorizon;
  // Of a decided group with few routed experts read only these, neighbours together; else whole groups.
  bool sparse = false;
};

// Whether of a group of `slots` records, `routed` of them needed, only these are read, in runs of neighbours: fewer
// than three quarters, since every run is a read of its own.
inline bool IsSparse(size_t routed, size_t slots) { return 4 * routed < 3 * slots; }

// A read to start now; its bank is Filling.
struct PlannedRead {
  uint32_t record = 0;  // tape index
  uint32_t arena = 0;
  uint32_t bank = 0;
  SlotRange slots;  // of the bank
  uint32_t file = 0;
  uint64_t offset = 0;       // in the file
  uint64_t bank_offset = 0;  // from the start of the bank
  uint64_t bytes = 0;
};

struct WalkCounts {
  uint64_t reads = 0;  // completed well
  uint64_t read_bytes = 0;
  uint64_t failed_reads = 0;
  uint64_t wasted_reads = 0;  // completed well, then given back without a lease: unrouted, displaced or stale
  uint64_t wasted_bytes = 0;
  uint64_t early_hits = 0;  // groups in a bank or on their way when Decide called for them
  uint64_t missed = 0;      // groups not so
  uint64_t displaced = 0;   // Ready banks taken by an earlier record
};

// Threads: one at a time; the Loader's mutex guards it.
// Cost:    Start is O(tape); Decide is O(experts); Next is O(arenas) plus a bitmap scan; nothing but Start allocates.
class TapeWalk {
 public:
  explicit TapeWalk(const std::vector<ResidencyTable::Shape>& arenas);

  // Begins a request. Banks of the one before (Ready without error, or still Filling) are kept when the new tape holds
  // the same record and would read it among its first B; the others are discarded, the Filling ones at completion.
  //
  // Errors: InvalidArgument when the tape or the options break their rules, the epoch does not grow, or a lease of the
  //         request before is still held; nothing has changed then.
  Status Start(std::shared_ptr<const Tape> tape, WalkOptions options);
  // Ends the request: Next returns nothing until Start. Banks stay as they are.
  void Stop() { running_ = false; }
  bool running() const { return running_; }

  // Moves the horizon forward to tape index `end`; never back.
  void SetHorizon(uint32_t end);

  // Routing of `layer` is known: routes[p] counts the routes of the expert at position p in pack order. Groups without
  // routes are skipped; their Ready banks are discarded, their Filling ones dropped at completion.
  //
  //   routes  [experts of the layer]
  //
  // Errors: InvalidArgument when the layer has no routed records on the tape, has another number of experts, or is
  //         decided already.
  Status Decide(uint32_t layer, std::span<const uint32_t> routes);

  // Reserves a bank for the next read, or nothing when none can begin now. Every read is followed by Complete. The
  // reads of a record (sparse ones may be several) follow each other.
  std::optional<PlannedRead> Next();
  void Complete(const PlannedRead& read, const Status& status);

  // The tape index of a record. Errors: InvalidArgument when it is not on the tape.
  Result<uint32_t> Find(const RecordId& id) const;

  // Somebody waits for `record`, or does so no longer; counted.
  void Demand(uint32_t record);
  void Undemand(uint32_t record);

  // Leases the record's bank; nothing when it must be waited for.
  //
  // Errors: InvalidArgument when the record is Undecided or Unneeded, or was used and given back; its read's error,
  //         after which it is unread again and may be asked for once more.
  Result<std::optional<uint32_t>> TryAcquire(uint32_t record);
  // One more lease of a bank that is leased, or one less.
  void AddLease(uint32_t arena, uint32_t bank);
  void Drop(uint32_t arena, uint32_t bank);

  const ResidencyTable& table(uint32_t arena) const { return arenas_[arena].table; }
  const Tape& tape() const { return *tape_; }
  const WalkCounts& counts() const { return counts_; }

 private:
  enum class Decision : uint8_t { kUndecided, kNeeded, kUnneeded };

  // What a bank was filled with.
  struct Fill {
    TapeRecord record;
    uint64_t read_bytes = 0;  // of the reads completed well
    uint32_t reads = 0;
  };
  struct Arena {
    explicit Arena(const ResidencyTable::Shape& shape);
    ResidencyTable table;
    std::vector<Fill> fills;         // [banks]
    std::vector<uint32_t> index_of;  // [layers, groups] -> tape index, or kNone
    IndexSet unread;                 // tape indices: Needed, and slots are missing
    IndexSet early;                  // ranks in early_order: Undecided, in no bank, before the horizon
    IndexSet ready;                  // tape indices whose bank is Ready
  };
  struct Record {
    Decision decision = Decision::kUndecided;
    bool used = false;
    uint32_t demands = 0;
    uint32_t early_rank = IndexSet::kNone;
    size_t first_slot = 0;  // in wanted_
  };
  // The routed records of a layer: tape indices [first, first + count).
  struct LayerGroups {
    uint32_t first = 0;
    uint32_t count = 0;
    uint32_t experts = 0;
  };

  Status CheckTape(const Tape& tape) const;
  Status CheckRecord(const TapeRecord& record) const;
  Status CheckOptions(const Tape& tape, const WalkOptions& options) const;
  void IndexTape();
  void KeepOrDropBanks();
  std::vector<bool> FirstReads() const;

  uint32_t Candidate(const Arena& arena) const;
  bool CanHaveBank(uint32_t record) const;
  uint32_t Victim(uint32_t record) const;
  PlannedRead Plan(uint32_t record);

  void DecideRecord(uint32_t record, std::span<const uint32_t> routes);
  void MarkUnread(uint32_t record);
  bool LacksSlots(uint32_t record, uint32_t bank) const;
  void CountWasted(Fill& fill);
  std::optional<uint32_t> BankOf(uint32_t record) const { return arena_of(record).table.BankOf(key_of(record)); }
  Arena& arena_of(uint32_t record) { return arenas_[tape_->records[record].arena]; }
  const Arena& arena_of(uint32_t record) const { return arenas_[tape_->records[record].arena]; }
  // Slots to be present before the record can be leased.
  std::span<uint8_t> wanted(uint32_t record) {
    return {wanted_.data() + records_[record].first_slot, tape_->records[record].slots};
  }
  std::span<const uint8_t> wanted(uint32_t record) const {
    return {wanted_.data() + records_[record].first_slot, tape_->records[record].slots};
  }
  RecordKey key_of(uint32_t record) const { return {tape_->records[record].layer, tape_->records[record].group}; }

  std::vector<Arena> arenas_;
  std::shared_ptr<const Tape> tape_;
  WalkOptions options_;
  std::vector<Record> records_;      // [tape]
  std::vector<uint8_t> wanted_;      // [slots of all records]
  std::vector<LayerGroups> layers_;  // [most layers of any arena]
  IndexSet demanded_;                // tape indices
  WalkCounts counts_;
  bool running_ = false;
};

}  // namespace estream
