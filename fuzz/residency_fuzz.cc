// SPDX-License-Identifier: Apache-2.0
// Bytes as a sequence of events: transitions of the residency table against a plain model of it, then random requests
// through the simulated loader (residency/testing/walk_sim.h).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/macros.h"
#include "residency/residency_table.h"
#include "residency/testing/walk_sim.h"

namespace estream {
namespace {

// Numbers from the input; after its end every draw is the largest, which makes reads succeed and requests end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint32_t Draw(uint32_t n) {
    if (left_ == 0) return n - 1;
    --left_;
    return *data_++ % n;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

// What a bank should be, kept the simple way.
struct ModelBank {
  BankState state = BankState::kAvailable;
  std::optional<RecordKey> owner;
  uint32_t leases = 0;
  std::string slots;  // a: absent, f: being read, p: present
  bool failed = false;
};

class TableModel {
 public:
  explicit TableModel(const ResidencyTable::Shape& shape) : shape_(shape), table_(shape), banks_(shape.banks) {
    for (ModelBank& bank : banks_) Clear(bank);
  }

  void Step(Input& input) {
    const uint32_t bank = input.Draw(shape_.banks + 1);
    const SlotRange slots = {input.Draw(shape_.slots + 1), input.Draw(shape_.slots + 2)};
    switch (input.Draw(8)) {
      case 0:
        return Reserve({input.Draw(shape_.layers + 1), input.Draw(shape_.groups + 1)}, slots);
      case 1:
        return Publish(bank, slots, input.Draw(4) != 0);
      case 2:
        return Abandon(bank);
      case 3:
        return Acquire(bank);
      case 4:
        return Drop(bank);
      case 5:
        return Discard(bank);
      case 6:
        return TopUp(bank, slots);
      default:
        return Adopt(bank, input.Draw(256));
    }
  }

  void Check() const {
    uint32_t available = 0, leased = 0;
    for (uint32_t b = 0; b < shape_.banks; ++b) {
      const ModelBank& bank = banks_[b];
      available += bank.state == BankState::kAvailable;
      leased += bank.state == BankState::kInUse;
      ES_CHECK(table_.state(b) == bank.state && table_.owner(b) == bank.owner && table_.leases(b) == bank.leases);
      ES_CHECK(table_.error(b).ok() != bank.failed);
      for (uint32_t s = 0; s < shape_.slots; ++s) ES_CHECK(table_.present(b, s) == (bank.slots[s] == 'p'));
      if (!bank.owner) continue;
      ES_CHECK(table_.BankOf(*bank.owner) == b);
      ES_CHECK(table_.Find(*bank.owner).has_value() == (bank.state != BankState::kFilling));
    }
    ES_CHECK(table_.available() == available && table_.leased() == leased);
  }

 private:
  bool In(uint32_t bank, BankState state) const { return bank < shape_.banks && banks_[bank].state == state; }
  bool Fits(SlotRange s) const { return s.count > 0 && s.first + s.count <= shape_.slots; }
  bool All(char state, const ModelBank& bank, SlotRange s) const {
    return Fits(s) && bank.slots.substr(s.first, s.count) == std::string(s.count, state);
  }
  void Clear(ModelBank& bank) const {
    bank = {};
    bank.slots.assign(shape_.slots, 'a');
  }

  void Reserve(RecordKey owner, SlotRange slots) {
    bool legal = owner.layer < shape_.layers && owner.group < shape_.groups && Fits(slots);
    bool full = true;
    for (const ModelBank& bank : banks_) {
      legal = legal && bank.owner != owner;
      full = full && bank.state != BankState::kAvailable;
    }
    const auto bank = table_.Reserve(owner, 1, slots);
    ES_CHECK(bank.ok() == legal);
    if (!legal) return;
    ES_CHECK(bank->has_value() != full);
    if (full) return;
    ModelBank& taken = banks_[**bank];
    ES_CHECK(taken.state == BankState::kAvailable);
    taken.state = BankState::kFilling;
    taken.owner = owner;
    taken.slots.replace(slots.first, slots.count, slots.count, 'f');
  }
  void Publish(uint32_t bank, SlotRange slots, bool good) {
    const bool legal = In(bank, BankState::kFilling) && All('f', banks_[bank], slots);
    ES_CHECK(table_.Publish(bank, slots, good ? Status::Ok() : Status::Io("fuzz")).ok() == legal);
    if (!legal) return;
    ModelBank& b = banks_[bank];
    b.slots.replace(slots.first, slots.count, slots.count, good ? 'p' : 'a');
    b.failed = b.failed || !good;
    if (b.slots.find('f') != std::string::npos) return;
    if (!b.owner) return Clear(b);
    b.state = BankState::kReady;
  }
  void Abandon(uint32_t bank) {
    const bool legal = In(bank, BankState::kFilling) && banks_[bank].owner;
    ES_CHECK(table_.Abandon(bank).ok() == legal);
    if (legal) banks_[bank].owner.reset();
  }
  void Acquire(uint32_t bank) {
    const bool ready = In(bank, BankState::kReady);
    const bool legal = (ready && !banks_[bank].failed) || In(bank, BankState::kInUse);
    ES_CHECK(table_.Acquire(bank).ok() == legal);
    if (ready && !legal) return Clear(banks_[bank]);
    if (!legal) return;
    banks_[bank].state = BankState::kInUse;
    ++banks_[bank].leases;
  }
  void Drop(uint32_t bank) {
    const bool legal = In(bank, BankState::kInUse);
    ES_CHECK(table_.Drop(bank).ok() == legal);
    if (legal && --banks_[bank].leases == 0) Clear(banks_[bank]);
  }
  void Discard(uint32_t bank) {
    const bool legal = In(bank, BankState::kReady);
    ES_CHECK(table_.Discard(bank).ok() == legal);
    if (legal) Clear(banks_[bank]);
  }
  void TopUp(uint32_t bank, SlotRange slots) {
    const bool legal = (In(bank, BankState::kReady) || (In(bank, BankState::kFilling) && banks_[bank].owner)) &&
                       !banks_[bank].failed && All('a', banks_[bank], slots);
    ES_CHECK(table_.TopUp(bank, slots).ok() == legal);
    if (!legal) return;
    banks_[bank].state = BankState::kFilling;
    banks_[bank].slots.replace(slots.first, slots.count, slots.count, 'f');
  }
  void Adopt(uint32_t bank, uint64_t epoch) {
    const bool legal = (In(bank, BankState::kFilling) && banks_[bank].owner) || In(bank, BankState::kReady);
    ES_CHECK(table_.Adopt(bank, epoch).ok() == legal);
    ES_CHECK(!legal || table_.epoch(bank) == epoch);
  }

  const ResidencyTable::Shape shape_;
  ResidencyTable table_;
  std::vector<ModelBank> banks_;
};

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estream::Input input(data, size);
  if (input.Draw(2) == 0) {
    estream::TableModel model(
        {1 + input.Draw(4), 1 + input.Draw(4), 1 + input.Draw(3), 1 + input.Draw(3), estream::kPageBytes});
    while (!input.empty()) {
      model.Step(input);
      model.Check();
    }
    return 0;
  }
  estream::testing::WalkSim sim([&](uint32_t n) { return input.Draw(n); });
  const std::string error = sim.Run();
  if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
  ES_CHECK(error.empty());
  return 0;
}
