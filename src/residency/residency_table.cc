// SPDX-License-Identifier: Apache-2.0
// Transitions of banks. Every one checks first and changes afterwards, so a refused one leaves no trace.
#include "residency/residency_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"

namespace estream {
namespace {

const char* Name(BankState state) {
  switch (state) {
    case BankState::kAvailable:
      return "Available";
    case BankState::kFilling:
      return "Filling";
    case BankState::kReady:
      return "Ready";
    case BankState::kInUse:
      return "InUse";
  }
  return "unknown";
}

}  // namespace

ResidencyTable::ResidencyTable(const Shape& shape)
    : shape_(shape),
      banks_(shape.banks),
      slots_(size_t{shape.banks} * shape.slots),
      bank_of_(size_t{shape.layers} * shape.groups, kNoBank) {
  free_.reserve(shape.banks);
  for (uint32_t bank = shape.banks; bank-- > 0;) free_.push_back(bank);
}

Status ResidencyTable::Expect(uint32_t bank, BankState state, const char* transition) const {
  if (bank >= shape_.banks) {
    return Status::Internal(fmt::format("{}: there is no bank {} in an arena of {}", transition, bank, shape_.banks));
  }
  if (banks_[bank].state == state) return Status::Ok();
  return Status::Internal(
      fmt::format("{}: bank {} is {}, expected {}", transition, bank, Name(banks_[bank].state), Name(state)));
}

bool ResidencyTable::Fits(SlotRange slots) const {
  return slots.count > 0 && slots.first < shape_.slots && slots.count <= shape_.slots - slots.first;
}

bool ResidencyTable::AllAre(Slot state, uint32_t bank, SlotRange slots) const {
  const auto first = slots_.begin() + static_cast<ptrdiff_t>(index(bank, slots.first));
  return std::all_of(first, first + slots.count, [state](Slot s) { return s == state; });
}

void ResidencyTable::Set(Slot state, uint32_t bank, SlotRange slots) {
  std::fill_n(slots_.begin() + static_cast<ptrdiff_t>(index(bank, slots.first)), slots.count, state);
}

Result<std::optional<uint32_t>> ResidencyTable::Reserve(RecordKey owner, uint64_t epoch, SlotRange slots) {
  if (!in_range(owner) || !Fits(slots)) {
    return Status::Internal(fmt::format("Reserve: layer {} group {} slots {}+{} are outside the arena's shape",
                                        owner.layer, owner.group, slots.first, slots.count));
  }
  if (const uint32_t bank = bank_of_[index(owner)]; bank != kNoBank) {
    return Status::Internal(
        fmt::format("Reserve: layer {} group {} is in bank {} already", owner.layer, owner.group, bank));
  }
  if (free_.empty()) return std::optional<uint32_t>();
  const uint32_t bank = free_.back();
  free_.pop_back();
  banks_[bank] = {BankState::kFilling, false, owner, epoch, 0, Status::Ok()};
  Set(Slot::kFilling, bank, slots);
  bank_of_[index(owner)] = bank;
  return std::optional<uint32_t>(bank);
}

Status ResidencyTable::Publish(uint32_t bank, SlotRange slots, const Status& read) {
  ES_RETURN_IF_ERROR(Expect(bank, BankState::kFilling, "Publish"));
  if (!Fits(slots) || !AllAre(Slot::kFilling, bank, slots)) {
    return Status::Internal(
        fmt::format("Publish: slots {}+{} of bank {} are not being read", slots.first, slots.count, bank));
  }
  Bank& b = banks_[bank];
  Set(read.ok() ? Slot::kPresent : Slot::kAbsent, bank, slots);
  if (b.error.ok()) b.error = read;
  const auto first = slots_.begin() + static_cast<ptrdiff_t>(index(bank, 0));
  if (std::find(first, first + shape_.slots, Slot::kFilling) != first + shape_.slots) return Status::Ok();
  if (b.abandoned) {
    Release(bank);
  } else {
    b.state = BankState::kReady;
  }
  return Status::Ok();
}

Status ResidencyTable::Abandon(uint32_t bank) {
  ES_RETURN_IF_ERROR(Expect(bank, BankState::kFilling, "Abandon"));
  Bank& b = banks_[bank];
  if (b.abandoned) return Status::Internal(fmt::format("Abandon: bank {} is abandoned already", bank));
  b.abandoned = true;
  bank_of_[index(b.owner)] = kNoBank;
  return Status::Ok();
}

Status ResidencyTable::Acquire(uint32_t bank) {
  if (bank >= shape_.banks || banks_[bank].state != BankState::kInUse) {
    ES_RETURN_IF_ERROR(Expect(bank, BankState::kReady, "Acquire"));
    if (Status error = banks_[bank].error; !error.ok()) {
      Release(bank);
      return error;
    }
    banks_[bank].state = BankState::kInUse;
    ++leased_;
  }
  ++banks_[bank].leases;
  return Status::Ok();
}

Status ResidencyTable::Drop(uint32_t bank) {
  ES_RETURN_IF_ERROR(Expect(bank, BankState::kInUse, "Drop"));
  if (--banks_[bank].leases > 0) return Status::Ok();
  --leased_;
  Release(bank);
  return Status::Ok();
}

Status ResidencyTable::Discard(uint32_t bank) {
  ES_RETURN_IF_ERROR(Expect(bank, BankState::kReady, "Discard"));
  Release(bank);
  return Status::Ok();
}

Status ResidencyTable::TopUp(uint32_t bank, SlotRange slots) {
  if (bank >= shape_.banks || banks_[bank].state != BankState::kFilling) {
    ES_RETURN_IF_ERROR(Expect(bank, BankState::kReady, "TopUp"));
  }
  if (!Fits(slots) || !AllAre(Slot::kAbsent, bank, slots)) {
    return Status::Internal(fmt::format("TopUp: slots {}+{} are outside a bank of {}, present or being read",
                                        slots.first, slots.count, shape_.slots));
  }
  Bank& b = banks_[bank];
  if (b.abandoned) return Status::Internal(fmt::format("TopUp: bank {} is abandoned", bank));
  if (!b.error.ok()) return Status::Internal(fmt::format("TopUp: bank {} holds a read error", bank));
  b.state = BankState::kFilling;
  Set(Slot::kFilling, bank, slots);
  return Status::Ok();
}

Status ResidencyTable::Adopt(uint32_t bank, uint64_t epoch) {
  if (bank >= shape_.banks || banks_[bank].state != BankState::kFilling) {
    ES_RETURN_IF_ERROR(Expect(bank, BankState::kReady, "Adopt"));
  }
  if (banks_[bank].abandoned) return Status::Internal(fmt::format("Adopt: bank {} is abandoned", bank));
  banks_[bank].epoch = epoch;
  return Status::Ok();
}

std::optional<uint32_t> ResidencyTable::Find(RecordKey owner) const {
  const auto bank = BankOf(owner);
  if (!bank || banks_[*bank].state == BankState::kFilling) return std::nullopt;
  return bank;
}

std::optional<uint32_t> ResidencyTable::BankOf(RecordKey owner) const {
  if (!in_range(owner) || bank_of_[index(owner)] == kNoBank) return std::nullopt;
  return bank_of_[index(owner)];
}

std::optional<RecordKey> ResidencyTable::owner(uint32_t bank) const {
  const Bank& b = banks_[bank];
  if (b.state == BankState::kAvailable || b.abandoned) return std::nullopt;
  return b.owner;
}

SlotRange ResidencyTable::Missing(uint32_t bank, std::span<const uint8_t> wanted) const {
  const auto missing = [&](uint32_t s) { return wanted[s] != 0 && slots_[index(bank, s)] == Slot::kAbsent; };
  const auto slots = static_cast<uint32_t>(wanted.size());
  uint32_t first = 0;
  while (first < slots && !missing(first)) ++first;
  uint32_t end = first;
  while (end < slots && missing(end)) ++end;
  return {first, end - first};
}

void ResidencyTable::Release(uint32_t bank) {
  Bank& b = banks_[bank];
  if (!b.abandoned) bank_of_[index(b.owner)] = kNoBank;
  b = Bank{};
  Set(Slot::kAbsent, bank, {0, shape_.slots});
  free_.push_back(bank);
}

}  // namespace estream
