// SPDX-License-Identifier: Apache-2.0
// A storage and an executor around TapeWalk, one event at a time: random models, schedules, delays, faults. For tests
// and fuzzing.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "residency/tape_walk.h"

namespace estream::testing {

// Runs a few requests and returns what was violated first, or nothing. Memory is simulated as one stamp a page: the
// page's number in the file, or poison while a read may write it.
class WalkSim {
 public:
  // draw(n) is some number in [0, n): it decides everything. draw(1) may be called.
  using Draw = std::function<uint32_t(uint32_t)>;
  explicit WalkSim(Draw draw) : draw_(std::move(draw)) { MakeModel(); }

  std::string Run() {
    const uint32_t requests = 1 + draw_(3);
    for (epoch_ = 1; epoch_ <= requests && error_.empty(); ++epoch_) RunRequest();
    while (error_.empty() && !in_flight_.empty()) CompleteOne();
    for (uint32_t a = 0; a < shapes_.size() && error_.empty(); ++a) {
      for (uint32_t b = 0; b < shapes_[a].banks; ++b) {
        const BankState state = walk_->table(a).state(b);
        if (state == BankState::kFilling || state == BankState::kInUse) Fail("a bank is neither Available nor Ready");
      }
    }
    return error_;
  }

  const WalkCounts& counts() const { return walk_->counts(); }

 private:
  static constexpr uint64_t kPoison = ~uint64_t{0};
  // Far above what any request of these sizes takes.
  static constexpr uint64_t kMostSteps = 20000;

  struct Op {
    enum class Kind { kAcquire, kDrop, kDecide, kHorizon } kind;
    uint32_t argument = 0;  // tape index, layer or horizon
  };
  struct Flight {
    PlannedRead read;
    bool fails = false;
  };
  struct Lease {
    uint32_t record = 0;
    uint32_t bank = 0;
    bool operator==(const Lease&) const = default;
  };

  uint32_t Between(uint32_t low, uint32_t high) { return low + draw_(high - low + 1); }
  bool Chance(uint32_t percent) { return draw_(100) < percent; }
  void Fail(const std::string& what) {
    if (error_.empty()) error_ = fmt::format("request {} step {}: {}", epoch_, steps_, what);
  }

  // Arena 0 holds experts, arena 1 block records; the smallest legal ones are likely.
  void MakeModel() {
    layers_ = Between(1, 5);
    experts_ = Between(1, 12);
    group_size_ = Between(1, std::min(experts_, 4u));
    depth_ = Between(1, 4);
    blocks_ = Chance(50);
    const uint32_t groups = (experts_ - 1) / group_size_ + 1;
    shapes_ = {{Chance(40) ? 1 : Between(1, 5), group_size_, layers_, groups, 2 * kPageBytes}};
    if (blocks_) shapes_.push_back({Between(1, 2), 1, layers_, 1, 3 * kPageBytes});
    walk_ = std::make_unique<TapeWalk>(shapes_);
    for (const auto& shape : shapes_) {
      memory_.emplace_back(size_t{shape.banks} * shape.slots * (shape.slot_stride / kPageBytes));
    }
    auto tape = std::make_shared<Tape>();
    uint64_t offset = kPageBytes;
    for (uint32_t l = 0; l < layers_; ++l) {
      if (blocks_) {
        tape->records.push_back({1, l, 0, 1, 0, false, offset, Between(1, 3) * kPageBytes});
        offset += tape->records.back().bytes();
      }
      if (l > 0 && Chance(10)) continue;  // a dense layer
      const GroupLayout layout = {offset, Between(1, 2) * kPageBytes, experts_, group_size_};
      tape->AppendGroups(layout, 0, l, 0);
      offset += experts_ * layout.record_bytes;
    }
    tape_ = std::move(tape);
  }

  void RunRequest() {
    WalkOptions options = MakeOptions();
    layer_local_ = options.horizon != WalkOptions::kNoHorizon && Chance(50);
    if (Status s = walk_->Start(tape_, options); !s.ok()) return Fail(s.message());
    for (const Flight& f : in_flight_) {
      // What is in flight belongs to the request before; it may be kept or not, but it stays Filling.
      if (walk_->table(f.read.arena).state(f.read.bank) != BankState::kFilling) Fail("a read lost its bank at Start");
    }
    MakeProgram();
    const uint32_t cancel_at = Chance(15) ? Between(1, 40) : 0;
    uint32_t step = 0;
    while (error_.empty() && pc_ < program_.size() && (cancel_at == 0 || ++step < cancel_at)) Step();
    walk_->Stop();
    if (demanded_) walk_->Undemand(*demanded_);
    demanded_.reset();
    while (!leases_.empty()) Drop(leases_.back());
    while (error_.empty() && !in_flight_.empty() && Chance(70)) CompleteOne();
  }

  WalkOptions MakeOptions() {
    WalkOptions options;
    options.epoch = epoch_;
    options.sparse = sparse_ = Chance(30);
    failure_percent_ = Chance(20) ? 20 : 0;
    if (Chance(30)) options.horizon = draw_(static_cast<uint32_t>(tape_->records.size()) + 1);
    horizon_ = options.horizon;
    std::vector<uint32_t>& order = options.early_order;
    if (Chance(80)) order = tape_->RoutedInOrder();
    if (Chance(40)) {
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw_(static_cast<uint32_t>(i))]);
    }
    if (Chance(30)) order.resize(draw_(static_cast<uint32_t>(order.size()) + 1));
    return options;
  }

  // The executor's program, with routing already drawn.
  void MakeProgram() {
    program_.clear();
    pc_ = 0;
    routes_.assign(layers_, std::vector<uint32_t>(experts_));
    wanted_.assign(tape_->records.size(), {});
    needed_.assign(tape_->records.size(), false);
    used_.assign(tape_->records.size(), false);
    asynchronous_ = Chance(50);
    const bool out_of_order = Chance(10);
    const uint32_t density = Chance(50) ? 100 : Between(5, 80);
    for (uint32_t i = 0; i < tape_->records.size();) {
      const TapeRecord& record = tape_->records[i];
      uint32_t end = i + 1;
      while (record.routed && end < tape_->records.size() && tape_->records[end].routed &&
             tape_->records[end].layer == record.layer) {
        ++end;
      }
      if (layer_local_) program_.push_back({Op::Kind::kHorizon, end});
      if (record.routed) {
        AppendLayer(i, end, density, out_of_order);
      } else {
        needed_[i] = true;
        wanted_[i] = {true};
        program_.push_back({Op::Kind::kAcquire, i});
        program_.push_back({Op::Kind::kDrop, i});
      }
      i = end;
    }
  }

  void AppendLayer(uint32_t begin, uint32_t end, uint32_t density, bool out_of_order) {
    const uint32_t layer = tape_->records[begin].layer;
    program_.push_back({Op::Kind::kDecide, layer});
    std::vector<uint32_t> order;
    for (uint32_t i = begin; i < end; ++i) {
      const TapeRecord& record = tape_->records[i];
      std::vector<bool> routed(record.slots);
      for (uint32_t r = 0; r < record.slots; ++r) {
        if (!Chance(density)) continue;
        routes_[layer][record.group * group_size_ + r] = Between(1, 9);
        routed[r] = true;
      }
      if (std::ranges::find(routed, true) == routed.end()) continue;
      wanted_[i] = sparse_ ? routed : std::vector<bool>(record.slots, true);
      order.push_back(i);
    }
    if (out_of_order) std::reverse(order.begin(), order.end());
    for (const uint32_t i : order) {
      program_.push_back({Op::Kind::kAcquire, i});
      program_.push_back({Op::Kind::kDrop, i});
    }
  }

  // One event: a read completes or the executor moves.
  void Step() {
    if (++steps_ > kMostSteps) return Fail("no end in sight");
    Pump();
    CheckBanks();
    if (!in_flight_.empty() && draw_(2) == 0) return CompleteOne();
    if (Execute()) return;
    Pump();
    if (!in_flight_.empty()) return CompleteOne();
    const TapeRecord& record = tape_->records[program_[pc_].argument];
    Fail(fmt::format("deadlock: waiting for arena {} layer {} group {}", record.arena, record.layer, record.group));
  }

  // Returns whether the executor could move.
  bool Execute() {
    const Op op = program_[pc_];
    switch (op.kind) {
      case Op::Kind::kHorizon:
        walk_->SetHorizon(op.argument);
        horizon_ = std::max(horizon_, op.argument);
        break;
      case Op::Kind::kDecide:
        if (!Decide(op.argument)) return true;
        break;
      case Op::Kind::kAcquire:
        return Acquire(op.argument);
      case Op::Kind::kDrop:
        // An asynchronous device keeps the bank until the executor must wait for it.
        if (!asynchronous_ || Chance(50)) DropRecord(op.argument);
        break;
    }
    ++pc_;
    return true;
  }

  bool Decide(uint32_t layer) {
    const Status status = walk_->Decide(layer, routes_[layer]);
    if (!status.ok()) Fail(status.message());
    for (uint32_t i = 0; i < tape_->records.size(); ++i) {
      const TapeRecord& record = tape_->records[i];
      if (record.routed && record.layer == layer) needed_[i] = !wanted_[i].empty();
    }
    return status.ok();
  }

  bool Acquire(uint32_t i) {
    auto bank = walk_->TryAcquire(i);
    if (!bank.ok()) {
      // A read error fails the request; anything else is a broken promise.
      if (bank.status().code() != StatusCode::kIo) Fail(bank.status().message());
      if (Chance(50)) return true;  // asks again
      pc_ = program_.size();
      return true;
    }
    if (bank->has_value()) {
      if (demanded_) walk_->Undemand(*std::exchange(demanded_, std::nullopt));
      leases_.push_back({i, **bank});
      CheckLease(leases_.back());
      ++pc_;
      return true;
    }
    // Nobody waits while leasing another bank of that arena.
    const uint32_t arena = tape_->records[i].arena;
    const auto held = std::find_if(leases_.begin(), leases_.end(),
                                   [&](const Lease& lease) { return tape_->records[lease.record].arena == arena; });
    if (held != leases_.end()) {
      Drop(*held);
      return true;
    }
    if (demanded_) return false;
    demanded_ = i;
    walk_->Demand(i);
    return true;
  }

  void DropRecord(uint32_t i) {
    const auto lease =
        std::find_if(leases_.begin(), leases_.end(), [&](const Lease& lease) { return lease.record == i; });
    if (lease != leases_.end()) Drop(*lease);
  }

  void Drop(Lease lease) {
    CheckLease(lease);
    walk_->Drop(tape_->records[lease.record].arena, lease.bank);
    used_[lease.record] = true;
    leases_.erase(std::find(leases_.begin(), leases_.end(), lease));
  }

  void Pump() {
    while (error_.empty() && in_flight_.size() < depth_) {
      std::vector<bool> in_bank(tape_->records.size());
      for (uint32_t i = 0; i < in_bank.size(); ++i) {
        const TapeRecord& record = tape_->records[i];
        in_bank[i] = walk_->table(record.arena).BankOf({record.layer, record.group}).has_value();
      }
      const auto read = walk_->Next();
      if (!read) return;
      CheckOrder(*read, in_bank);
      for (const Flight& f : in_flight_) {
        const SlotRange a = f.read.slots, b = read->slots;
        if (f.read.arena == read->arena && f.read.bank == read->bank && a.first < b.first + b.count &&
            b.first < a.first + a.count) {
          Fail("a slot is read twice at once");
        }
      }
      for (const Lease& lease : leases_) {
        if (tape_->records[lease.record].arena == read->arena && lease.bank == read->bank)
          Fail("a leased bank is read");
      }
      Stamp(*read, true);
      in_flight_.push_back({*read, Chance(failure_percent_)});
    }
  }

  // No undecided record goes before a needed one, no needed record before an earlier needed one.
  void CheckOrder(const PlannedRead& read, const std::vector<bool>& in_bank) {
    const TapeRecord& chosen = tape_->records[read.record];
    if (demanded_ == read.record) return;
    if (read.record >= horizon_) Fail("a record beyond the horizon was read unasked");
    for (uint32_t i = 0; i < in_bank.size(); ++i) {
      if (tape_->records[i].arena != chosen.arena || !needed_[i] || used_[i] || in_bank[i] || i >= horizon_) continue;
      if (i < read.record || !needed_[read.record]) Fail(fmt::format("record {} was passed over", i));
    }
  }

  void CompleteOne() {
    const size_t which = draw_(static_cast<uint32_t>(in_flight_.size()));
    const Flight flight = in_flight_[which];
    in_flight_.erase(in_flight_.begin() + static_cast<ptrdiff_t>(which));
    if (!flight.fails) Stamp(flight.read, false);
    walk_->Complete(flight.read, flight.fails ? Status::Io("injected") : Status::Ok());
  }

  void Stamp(const PlannedRead& read, bool poison) {
    uint64_t* pages = PagesOf(read.arena, read.bank) + read.bank_offset / kPageBytes;
    for (uint64_t p = 0; p < read.bytes / kPageBytes; ++p) {
      pages[p] = poison ? kPoison : read.offset / kPageBytes + p;
    }
  }

  void CheckLease(const Lease& lease) {
    const TapeRecord& record = tape_->records[lease.record];
    const uint64_t slot_pages = record.record_bytes / kPageBytes;
    for (uint64_t p = 0; p < record.slots * slot_pages; ++p) {
      if (!wanted_[lease.record][p / slot_pages]) continue;
      if (PagesOf(record.arena, lease.bank)[p] == record.offset / kPageBytes + p) continue;
      return Fail(fmt::format("a lease of layer {} group {} holds wrong bytes", record.layer, record.group));
    }
  }

  void CheckBanks() {
    for (uint32_t a = 0; a < shapes_.size(); ++a) {
      for (uint32_t b = 0; b < shapes_[a].banks; ++b) {
        const bool reading =
            std::ranges::any_of(in_flight_, [&](const Flight& f) { return f.read.arena == a && f.read.bank == b; });
        if (reading != (walk_->table(a).state(b) == BankState::kFilling)) Fail("a bank is Filling if it is being read");
      }
    }
    for (const Lease& lease : leases_) {
      if (walk_->table(tape_->records[lease.record].arena).state(lease.bank) != BankState::kInUse) {
        Fail("a leased bank is not InUse");
      }
      CheckLease(lease);
    }
  }

  uint64_t* PagesOf(uint32_t arena, uint32_t bank) {
    return memory_[arena].data() + bank * shapes_[arena].slots * (shapes_[arena].slot_stride / kPageBytes);
  }

  Draw draw_;
  std::string error_;
  uint64_t steps_ = 0;

  // The model.
  uint32_t layers_ = 0, experts_ = 0, group_size_ = 0, depth_ = 0;
  bool blocks_ = false;
  std::vector<ResidencyTable::Shape> shapes_;
  std::shared_ptr<const Tape> tape_;
  std::unique_ptr<TapeWalk> walk_;
  std::vector<std::vector<uint64_t>> memory_;  // [arena][pages]

  // The request.
  uint64_t epoch_ = 0;
  uint32_t horizon_ = 0, failure_percent_ = 0;
  bool sparse_ = false, layer_local_ = false, asynchronous_ = false;
  std::vector<std::vector<uint32_t>> routes_;  // [layer][position]
  std::vector<std::vector<bool>> wanted_;      // [tape][slots], empty: not needed
  std::vector<bool> needed_, used_;            // [tape], as decided so far
  std::vector<Op> program_;
  size_t pc_ = 0;
  std::optional<uint32_t> demanded_;
  std::vector<Lease> leases_;
  std::vector<Flight> in_flight_;
};

}  // namespace estream::testing
