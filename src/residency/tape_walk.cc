// SPDX-License-Identifier: Apache-2.0
// The walk itself. A record's place is kept once, in the residency table; the three bitmaps of an arena only make the
// next choice cheap, and every function that moves a record moves it in them too.
#include "residency/tape_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/macros.h"

namespace estream {
namespace {

constexpr uint32_t kNone = IndexSet::kNone;

// The first run of slots that are not 0.
SlotRange FirstRun(std::span<const uint8_t> slots) {
  const auto first = std::ranges::find_if(slots, [](uint8_t s) { return s != 0; });
  const auto end = std::find(first, slots.end(), 0);
  return {static_cast<uint32_t>(first - slots.begin()), static_cast<uint32_t>(end - first)};
}

}  // namespace

TapeWalk::Arena::Arena(const ResidencyTable::Shape& shape)
    : table(shape), fills(shape.banks), index_of(size_t{shape.layers} * shape.groups, kNone) {}

TapeWalk::TapeWalk(const std::vector<ResidencyTable::Shape>& arenas) : tape_(std::make_shared<Tape>()) {
  uint32_t layers = 0;
  for (const auto& shape : arenas) {
    arenas_.emplace_back(shape);
    layers = std::max(layers, shape.layers);
  }
  layers_.resize(layers);
}

Status TapeWalk::Start(std::shared_ptr<const Tape> tape, WalkOptions options) {
  ES_RETURN_IF_ERROR(CheckTape(*tape));
  ES_RETURN_IF_ERROR(CheckOptions(*tape, options));
  for (const Arena& arena : arenas_) {
    if (arena.table.leased() == 0) continue;
    return Status::InvalidArgument(fmt::format("request {} cannot start: request {} still holds {} leases",
                                               options.epoch, options_.epoch, arena.table.leased()));
  }
  tape_ = std::move(tape);
  options_ = std::move(options);
  running_ = true;
  IndexTape();
  KeepOrDropBanks();
  for (uint32_t i = 0; i < records_.size(); ++i) {
    const auto bank = BankOf(i);
    if (!bank || (arena_of(i).ready.contains(i) && LacksSlots(i, *bank))) MarkUnread(i);
  }
  return Status::Ok();
}

void TapeWalk::IndexTape() {
  const auto size = static_cast<uint32_t>(tape_->records.size());
  for (Arena& arena : arenas_) {
    std::fill(arena.index_of.begin(), arena.index_of.end(), kNone);
    arena.unread.Reset(size);
    arena.early.Reset(static_cast<uint32_t>(options_.early_order.size()));
    arena.ready.Reset(size);
  }
  demanded_.Reset(size);
  records_.assign(size, Record{});
  wanted_.clear();
  std::fill(layers_.begin(), layers_.end(), LayerGroups{});
  for (uint32_t i = 0; i < size; ++i) {
    const TapeRecord& record = tape_->records[i];
    arena_of(i).index_of[record.layer * size_t{arena_of(i).table.shape().groups} + record.group] = i;
    records_[i].decision = record.routed ? Decision::kUndecided : Decision::kNeeded;
    records_[i].first_slot = wanted_.size();
    wanted_.resize(wanted_.size() + record.slots, 1);
    if (!record.routed) continue;
    LayerGroups& layer = layers_[record.layer];
    if (layer.count++ == 0) layer.first = i;
    layer.experts += record.slots;
  }
  for (uint32_t rank = 0; rank < options_.early_order.size(); ++rank) {
    records_[options_.early_order[rank]].early_rank = rank;
  }
}

void TapeWalk::KeepOrDropBanks() {
  const std::vector<bool> first_reads = FirstReads();
  for (uint32_t a = 0; a < arenas_.size(); ++a) {
    Arena& arena = arenas_[a];
    for (uint32_t bank = 0; bank < arena.table.shape().banks; ++bank) {
      const auto owner = arena.table.owner(bank);
      if (!owner) continue;
      const auto record = Find({a, owner->layer, owner->group});
      const bool keep = record.ok() && first_reads[*record] && tape_->records[*record] == arena.fills[bank].record &&
                        arena.table.error(bank).ok();
      const bool ready = arena.table.state(bank) == BankState::kReady;
      if (keep) {
        ES_CHECK(arena.table.Adopt(bank, options_.epoch).ok());
        if (ready) arena.ready.Insert(*record);
      } else if (ready) {
        ES_CHECK(arena.table.Discard(bank).ok());
        CountWasted(arena.fills[bank]);
      } else {
        ES_CHECK(arena.table.Abandon(bank).ok());
      }
    }
  }
}

// Which records the walk would read first if all banks were free. Keeping others would leave no bank for early loading,
// which takes none back.
std::vector<bool> TapeWalk::FirstReads() const {
  std::vector<bool> first(records_.size());
  std::vector<uint32_t> banks;
  for (const Arena& arena : arenas_) banks.push_back(arena.table.shape().banks);
  const auto take = [&](uint32_t i) {
    uint32_t& left = banks[tape_->records[i].arena];
    if (left == 0 || i >= options_.horizon) return;
    --left;
    first[i] = true;
  };
  for (uint32_t i = 0; i < records_.size(); ++i) {
    if (records_[i].decision == Decision::kNeeded) take(i);
  }
  for (const uint32_t i : options_.early_order) take(i);
  return first;
}

void TapeWalk::SetHorizon(uint32_t end) {
  const uint32_t begin = options_.horizon;
  if (end <= begin) return;
  options_.horizon = end;
  const auto last = std::min(end, static_cast<uint32_t>(records_.size()));
  for (uint32_t i = begin; i < last; ++i) {
    if (records_[i].decision == Decision::kUndecided && !BankOf(i)) MarkUnread(i);
  }
}

Status TapeWalk::Decide(uint32_t layer, std::span<const uint32_t> routes) {
  const LayerGroups groups = layer < layers_.size() ? layers_[layer] : LayerGroups{};
  if (groups.count == 0) {
    return Status::InvalidArgument(fmt::format("layer {} has no routed experts on the tape", layer));
  }
  if (routes.size() != groups.experts) {
    return Status::InvalidArgument(
        fmt::format("layer {} has {} experts, found routes for {}", layer, groups.experts, routes.size()));
  }
  if (records_[groups.first].decision != Decision::kUndecided) {
    return Status::InvalidArgument(fmt::format("layer {} is decided already", layer));
  }
  uint32_t position = 0;
  for (uint32_t i = groups.first; i < groups.first + groups.count; ++i) {
    const uint32_t slots = tape_->records[i].slots;
    DecideRecord(i, routes.subspan(position, slots));
    position += slots;
  }
  return Status::Ok();
}

void TapeWalk::DecideRecord(uint32_t i, std::span<const uint32_t> routes) {
  Record& record = records_[i];
  Arena& arena = arena_of(i);
  const auto bank = BankOf(i);
  if (record.early_rank != kNone) arena.early.Erase(record.early_rank);
  const auto routed = static_cast<size_t>(std::ranges::count_if(routes, [](uint32_t n) { return n > 0; }));
  if (routed > 0) {
    record.decision = Decision::kNeeded;
    if (options_.sparse && IsSparse(routed, routes.size())) {
      std::ranges::transform(routes, wanted(i).begin(), [](uint32_t n) { return n > 0; });
    }
    ++(bank ? counts_.early_hits : counts_.missed);
    if (!bank || (arena.ready.contains(i) && LacksSlots(i, *bank))) MarkUnread(i);
    return;
  }
  record.decision = Decision::kUnneeded;
  if (!bank) return;
  if (arena.ready.contains(i)) {
    arena.ready.Erase(i);
    ES_CHECK(arena.table.Discard(*bank).ok());
    CountWasted(arena.fills[*bank]);
  } else {
    ES_CHECK(arena.table.Abandon(*bank).ok());
  }
}

std::optional<PlannedRead> TapeWalk::Next() {
  if (!running_) return std::nullopt;
  for (uint32_t i = demanded_.First(); i != kNone; i = demanded_.From(i + 1)) {
    if (arena_of(i).unread.contains(i) && CanHaveBank(i)) return Plan(i);
  }
  uint32_t next = kNone;
  for (const Arena& arena : arenas_) {
    const uint32_t i = Candidate(arena);
    if (i < next && CanHaveBank(i)) next = i;
  }
  if (next == kNone) return std::nullopt;
  return Plan(next);
}

uint32_t TapeWalk::Candidate(const Arena& arena) const {
  if (const uint32_t needed = arena.unread.First(); needed < options_.horizon) return needed;
  const uint32_t rank = arena.early.First();
  return rank == kNone ? kNone : options_.early_order[rank];
}

bool TapeWalk::CanHaveBank(uint32_t i) const {
  if (arena_of(i).table.available() > 0) return true;
  if (records_[i].decision == Decision::kUndecided) return false;
  return BankOf(i).has_value() || Victim(i) != kNone;
}

// The Ready record whose bank `i` may take: the farthest ahead that nobody waits for, or kNone.
uint32_t TapeWalk::Victim(uint32_t i) const {
  const IndexSet& ready = arena_of(i).ready;
  uint32_t victim = ready.Last();
  while (victim != kNone && demanded_.contains(victim)) victim = ready.Before(victim);
  if (victim == kNone || (victim < i && !demanded_.contains(i))) return kNone;
  return victim;
}

// The next read of `i`: the first run of its missing slots, in the bank it has or in a new one.
PlannedRead TapeWalk::Plan(uint32_t i) {
  const TapeRecord& record = tape_->records[i];
  Arena& arena = arena_of(i);
  SlotRange slots;
  auto bank = BankOf(i);
  if (bank) {
    slots = arena.table.Missing(*bank, wanted(i));
    arena.ready.Erase(i);
    ES_CHECK(arena.table.TopUp(*bank, slots).ok());
  } else {
    slots = FirstRun(wanted(i));
    if (arena.table.available() == 0) {
      const uint32_t victim = Victim(i);
      const uint32_t taken = *BankOf(victim);
      arena.ready.Erase(victim);
      ES_CHECK(arena.table.Discard(taken).ok());
      CountWasted(arena.fills[taken]);
      ++counts_.displaced;
      MarkUnread(victim);
    }
    auto reserved = arena.table.Reserve(key_of(i), options_.epoch, slots);
    ES_CHECK(reserved.ok() && reserved->has_value());
    bank = **reserved;
    arena.fills[*bank] = {record};
  }
  if (arena.table.Missing(*bank, wanted(i)).count == 0) arena.unread.Erase(i);
  if (records_[i].early_rank != kNone) arena.early.Erase(records_[i].early_rank);
  const uint64_t skipped = slots.first * record.record_bytes;
  const uint64_t bytes = slots.count * record.record_bytes;
  return {i, record.arena, *bank, slots, record.file, record.offset + skipped, skipped, bytes};
}

void TapeWalk::Complete(const PlannedRead& read, const Status& status) {
  Arena& arena = arenas_[read.arena];
  Fill& fill = arena.fills[read.bank];
  if (status.ok()) {
    ++counts_.reads;
    ++fill.reads;
    counts_.read_bytes += read.bytes;
    fill.read_bytes += read.bytes;
  } else {
    ++counts_.failed_reads;
  }
  const auto owner = arena.table.owner(read.bank);
  ES_CHECK(arena.table.Publish(read.bank, read.slots, status).ok());
  const bool filling = arena.table.state(read.bank) == BankState::kFilling;
  if (!owner) {
    if (!filling) CountWasted(fill);
    return;
  }
  const uint32_t i = *Find({read.arena, owner->layer, owner->group});
  if (!status.ok()) arena.unread.Erase(i);  // more of it would be read in vain: the error comes first
  if (filling) return;
  arena.ready.Insert(i);
  if (LacksSlots(i, read.bank)) MarkUnread(i);
}

Result<uint32_t> TapeWalk::Find(const RecordId& id) const {
  const auto missing = [&] {
    return Status::InvalidArgument(
        fmt::format("layer {} group {} of arena {} is not on the tape", id.layer, id.group, id.arena));
  };
  if (id.arena >= arenas_.size()) return missing();
  const Arena& arena = arenas_[id.arena];
  if (!arena.table.in_range({id.layer, id.group})) return missing();
  const uint32_t i = arena.index_of[id.layer * size_t{arena.table.shape().groups} + id.group];
  if (i == kNone) return missing();
  return i;
}

void TapeWalk::Demand(uint32_t i) {
  ++records_[i].demands;
  demanded_.Insert(i);
}

void TapeWalk::Undemand(uint32_t i) {
  if (--records_[i].demands == 0) demanded_.Erase(i);
}

Result<std::optional<uint32_t>> TapeWalk::TryAcquire(uint32_t i) {
  const Record& record = records_[i];
  if (record.decision != Decision::kNeeded || record.used) {
    const char* reason = record.used                               ? "was used and given back"
                         : record.decision == Decision::kUndecided ? "is not decided yet"
                                                                   : "has no routes";
    return Status::InvalidArgument(
        fmt::format("layer {} group {} cannot be leased: it {}", key_of(i).layer, key_of(i).group, reason));
  }
  Arena& arena = arena_of(i);
  const auto bank = arena.table.Find(key_of(i));
  if (!bank || arena.unread.contains(i)) return std::optional<uint32_t>();
  const Status status = arena.table.Acquire(*bank);
  arena.ready.Erase(i);
  if (status.ok()) return std::optional<uint32_t>(bank);
  CountWasted(arena.fills[*bank]);
  MarkUnread(i);
  return status;
}

void TapeWalk::AddLease(uint32_t a, uint32_t bank) {
  ES_CHECK(arenas_[a].table.state(bank) == BankState::kInUse);
  ES_CHECK(arenas_[a].table.Acquire(bank).ok());
}

void TapeWalk::Drop(uint32_t a, uint32_t bank) {
  Arena& arena = arenas_[a];
  const auto owner = arena.table.owner(bank);
  ES_CHECK(arena.table.Drop(bank).ok());
  if (arena.table.state(bank) == BankState::kAvailable) records_[*Find({a, owner->layer, owner->group})].used = true;
}

// `i` is in no bank, or in one that lacks slots of it: it waits for its turn to be read.
void TapeWalk::MarkUnread(uint32_t i) {
  const Record& record = records_[i];
  if (record.decision == Decision::kNeeded) {
    arena_of(i).unread.Insert(i);
  } else if (record.decision == Decision::kUndecided && record.early_rank != kNone && i < options_.horizon) {
    arena_of(i).early.Insert(record.early_rank);
  }
}

// Whether a Ready bank must be topped up before `i` can be leased. A read error must surface first.
bool TapeWalk::LacksSlots(uint32_t i, uint32_t bank) const {
  const ResidencyTable& table = arena_of(i).table;
  return records_[i].decision == Decision::kNeeded && table.error(bank).ok() &&
         table.Missing(bank, wanted(i)).count > 0;
}

// The bank of `fill` was given back without a lease.
void TapeWalk::CountWasted(Fill& fill) {
  counts_.wasted_reads += fill.reads;
  counts_.wasted_bytes += fill.read_bytes;
  fill.reads = 0;
  fill.read_bytes = 0;
}

}  // namespace estream
