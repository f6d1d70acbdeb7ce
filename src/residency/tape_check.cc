// SPDX-License-Identifier: Apache-2.0
// What a tape and its options must satisfy before a walk begins.
#include <fmt/format.h>

#include <vector>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/macros.h"
#include "residency/tape_walk.h"

namespace estream {
namespace {

std::string Name(const TapeRecord& record) {
  return fmt::format("tape record (arena {}, layer {}, group {})", record.arena, record.layer, record.group);
}

}  // namespace

Status TapeWalk::CheckRecord(const TapeRecord& record) const {
  if (record.arena >= arenas_.size() || !arenas_[record.arena].table.in_range({record.layer, record.group})) {
    return Status::InvalidArgument(fmt::format("{}: outside the shape of its arena", Name(record)));
  }
  const ResidencyTable::Shape& shape = arenas_[record.arena].table.shape();
  if (record.slots == 0 || record.slots > shape.slots || record.record_bytes > shape.slot_stride) {
    return Status::InvalidArgument(fmt::format("{}: {} slots of {} bytes do not fit a bank of {} slots of {}",
                                               Name(record), record.slots, record.record_bytes, shape.slots,
                                               shape.slot_stride));
  }
  const auto bytes = CheckedMul(record.slots, record.record_bytes);
  const auto end = bytes ? CheckedAdd(record.offset, *bytes) : std::nullopt;
  if (record.record_bytes == 0 || record.record_bytes % kPageBytes != 0 || record.offset % kPageBytes != 0 || !end ||
      *end > static_cast<uint64_t>(INT64_MAX)) {
    return Status::InvalidArgument(fmt::format("{}: {} bytes a slot at offset {} are no whole pages of a file",
                                               Name(record), record.record_bytes, record.offset));
  }
  return Status::Ok();
}

Status TapeWalk::CheckTape(const Tape& tape) const {
  if (tape.records.size() >= IndexSet::kNone) return Status::InvalidArgument("the tape is too long");
  std::vector<std::vector<bool>> seen;
  for (const Arena& arena : arenas_) seen.emplace_back(arena.index_of.size());
  std::vector<bool> layer_seen(layers_.size());
  const TapeRecord* before = nullptr;
  for (const TapeRecord& record : tape.records) {
    ES_RETURN_IF_ERROR(CheckRecord(record));
    const size_t key = record.layer * size_t{arenas_[record.arena].table.shape().groups} + record.group;
    if (seen[record.arena][key]) return Status::InvalidArgument(fmt::format("{}: is there twice", Name(record)));
    seen[record.arena][key] = true;
    if (record.routed) {
      const bool follows = before != nullptr && before->routed && before->layer == record.layer &&
                           before->arena == record.arena && before->group + 1 == record.group;
      const bool begins = record.group == 0 && !layer_seen[record.layer];
      if (!follows && !begins) {
        return Status::InvalidArgument(
            fmt::format("{}: routed groups of a layer must stand together, from 0 in order", Name(record)));
      }
      layer_seen[record.layer] = true;
    }
    before = &record;
  }
  return Status::Ok();
}

Status TapeWalk::CheckOptions(const Tape& tape, const WalkOptions& options) const {
  if (options.epoch <= options_.epoch) {
    return Status::InvalidArgument(
        fmt::format("epoch {} does not follow that of the request before, {}", options.epoch, options_.epoch));
  }
  std::vector<bool> seen(tape.records.size());
  for (const uint32_t i : options.early_order) {
    if (i >= tape.records.size() || !tape.records[i].routed || seen[i]) {
      return Status::InvalidArgument(
          fmt::format("early order: {} is no routed record of the tape, or is there twice", i));
    }
    seen[i] = true;
  }
  return Status::Ok();
}

}  // namespace estream
