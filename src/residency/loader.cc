// SPDX-License-Identifier: Apache-2.0
// The walk with a lock around it. Whatever may allow a read (a start, a decision, a demand, a bank given back, a read
// completed) is followed by Pump, which takes reads under the lock and submits them without it.
#include "residency/loader.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <numeric>

#include "base/macros.h"

namespace estream {
namespace {

uint64_t SteadyNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

std::vector<ResidencyTable::Shape> Shapes(const std::vector<LoaderArena>& arenas) {
  std::vector<ResidencyTable::Shape> shapes;
  for (const LoaderArena& a : arenas) {
    shapes.push_back({a.memory.banks, a.memory.slots, a.layers, a.groups, a.memory.slot_stride});
  }
  return shapes;
}

Status RequestOver() { return Status::Cancelled("the request was cancelled"); }

}  // namespace

BankLease& BankLease::operator=(BankLease&& o) noexcept {
  if (this == &o) return *this;
  Drop();
  loader_ = std::exchange(o.loader_, nullptr);
  place_ = o.place_;
  bank_offset_ = o.bank_offset_;
  memory_ = o.memory_;
  return *this;
}

BankLease BankLease::Share() const { return loader_->AddLease(*this); }

void BankLease::Drop() {
  if (Loader* loader = std::exchange(loader_, nullptr)) loader->DropLease(place_);
}

Result<std::unique_ptr<Loader>> Loader::Create(ReadEngine* engine, LoaderOptions options) {
  if (options.depth == 0 || options.depth > engine->depth()) {
    return Status::InvalidArgument(
        fmt::format("the loader wants {} reads in flight, the read engine has {}", options.depth, engine->depth()));
  }
  if (!options.now_ns) options.now_ns = SteadyNs;
  return std::unique_ptr<Loader>(new Loader(engine, std::move(options)));
}

Loader::Loader(ReadEngine* engine, LoaderOptions options)
    : engine_(engine),
      options_(std::move(options)),
      walk_(Shapes(options_.arenas)),
      flights_(options_.depth),
      free_flights_(options_.depth) {
  std::iota(free_flights_.begin(), free_flights_.end(), 0u);
}

Loader::~Loader() {
  Cancel();
  MutexLock lock(mutex_);
  for (uint32_t a = 0; a < options_.arenas.size(); ++a) ES_CHECK(walk_.table(a).leased() == 0);
}

Status Loader::Start(std::shared_ptr<const Tape> tape, WalkOptions options) {
  {
    MutexLock lock(mutex_);
    // A waiter of the request before refers to that request's tape; it must be gone before the tape changes.
    if (waiters_ > 0) StopAndWakeWaiters();
    while (waiters_ > 0) changed_.Wait(mutex_);
    const uint64_t epoch = options.epoch;
    ES_RETURN_IF_ERROR(walk_.Start(std::move(tape), std::move(options)));
    epoch_ = epoch;
  }
  Pump();
  return Status::Ok();
}

void Loader::SetHorizon(uint32_t end) {
  {
    MutexLock lock(mutex_);
    walk_.SetHorizon(end);
  }
  Pump();
}

Status Loader::Decide(uint32_t layer, std::span<const uint32_t> routes) {
  {
    MutexLock lock(mutex_);
    if (!walk_.running()) return RequestOver();
    ES_RETURN_IF_ERROR(walk_.Decide(layer, routes));
  }
  Pump();
  return Status::Ok();
}

Result<BankLease> Loader::Acquire(const RecordId& id) {
  auto lease = TryAcquire(id);
  if (!lease.ok()) return lease.status();
  if (lease->has_value()) return std::move(**lease);
  auto waited = WaitFor(id);
  if (!waited.ok()) Pump();
  return waited;
}

Result<std::optional<BankLease>> Loader::TryAcquire(const RecordId& id) {
  auto lease = [&]() -> Result<std::optional<BankLease>> {
    MutexLock lock(mutex_);
    if (!walk_.running()) return RequestOver();
    ES_ASSIGN_OR_RETURN(const uint32_t record, walk_.Find(id));
    return LeaseIfReady(record);
  }();
  // A read error gave its bank back.
  if (!lease.ok()) Pump();
  return lease;
}

Result<BankLease> Loader::WaitFor(const RecordId& id) {
  uint32_t record = 0;
  uint64_t begin_ns = 0;
  {
    MutexLock lock(mutex_);
    if (!walk_.running()) return RequestOver();
    ES_ASSIGN_OR_RETURN(record, walk_.Find(id));
    begin_ns = options_.now_ns();
    ++waiters_;
    walk_.Demand(record);
  }
  Pump();
  MutexLock lock(mutex_);
  Result<std::optional<BankLease>> lease = LeaseIfReady(record);
  while (walk_.running() && lease.ok() && !lease->has_value()) {
    changed_.Wait(mutex_);
    if (walk_.running()) lease = LeaseIfReady(record);
  }
  walk_.Undemand(record);
  --waiters_;
  changed_.NotifyAll();
  ++counts_.stalls;
  counts_.stall_ns += options_.now_ns() - begin_ns;
  if (!lease.ok()) return lease.status();
  if (!lease->has_value()) return RequestOver();
  return std::move(**lease);
}

Result<std::optional<BankLease>> Loader::LeaseIfReady(uint32_t record) {
  ES_ASSIGN_OR_RETURN(const std::optional<uint32_t> bank, walk_.TryAcquire(record));
  if (!bank) return std::optional<BankLease>();
  const TapeRecord& r = walk_.tape().records[record];
  const BankArena& arena = options_.arenas[r.arena].memory;
  return std::optional<BankLease>(
      BankLease(this, {r.arena, *bank}, arena.bank_offset(*bank), arena.bank_memory(*bank).first(r.bytes())));
}

void Loader::Cancel() {
  MutexLock lock(mutex_);
  StopAndWakeWaiters();
  while (in_flight_ > 0 || sinks_ > 0 || waiters_ > 0) changed_.Wait(mutex_);
}

void Loader::StopAndWakeWaiters() {
  walk_.Stop();
  changed_.NotifyAll();
}

LoaderCounts Loader::counts() const {
  MutexLock lock(mutex_);
  LoaderCounts counts = counts_;
  static_cast<WalkCounts&>(counts) = walk_.counts();
  counts.waiting = waiters_;
  if (in_flight_ > 0) counts.io_ns += options_.now_ns() - busy_since_ns_;
  return counts;
}

void Loader::Pump() {
  std::array<Departure, kBatch> reads;
  while (const uint32_t count = TakeReads(reads)) {
    for (const auto& [flight, read] : std::span(reads).first(count)) {
      std::byte* const bank = options_.arenas[read.arena].memory.bank_memory(read.bank).data();
      const Status status =
          engine_->Submit({read.file, read.offset, read.bytes, bank + read.bank_offset, flight, this});
      // What cannot be submitted is a read that failed; whoever acquires the record is told.
      if (!status.ok()) Complete(flight, status);
    }
  }
}

uint32_t Loader::TakeReads(std::span<Departure> reads) {
  MutexLock lock(mutex_);
  uint32_t count = 0;
  while (count < reads.size() && in_flight_ < options_.depth) {
    const auto read = walk_.Next();
    if (!read) break;
    const uint64_t now = options_.now_ns();
    if (in_flight_++ == 0) busy_since_ns_ = now;
    const uint32_t flight = free_flights_.back();
    free_flights_.pop_back();
    flights_[flight] = {*read, epoch_, now};
    reads[count++] = {flight, *read};
  }
  return count;
}

void Loader::OnRead(uint64_t tag, const Status& status) {
  {
    MutexLock lock(mutex_);
    ++sinks_;
  }
  Complete(static_cast<uint32_t>(tag), status);
  Pump();
  MutexLock lock(mutex_);
  // Notified under the lock: after it, Cancel may return and the loader be gone.
  if (--sinks_ == 0) changed_.NotifyAll();
}

void Loader::Complete(uint32_t index, const Status& status) {
  Flight flight;
  uint64_t now = 0;
  {
    MutexLock lock(mutex_);
    now = options_.now_ns();
    flight = flights_[index];
    free_flights_.push_back(index);
    walk_.Complete(flight.read, status);
    if (--in_flight_ == 0) counts_.io_ns += now - busy_since_ns_;
    changed_.NotifyAll();
  }
  if (!options_.on_read) return;
  options_.on_read({flight.read.record, flight.epoch, flight.read.bytes, flight.begin_ns, now, status.ok()});
}

BankLease Loader::AddLease(const BankLease& lease) {
  MutexLock lock(mutex_);
  walk_.AddLease(lease.place_.arena, lease.place_.bank);
  return {this, lease.place_, lease.bank_offset_, lease.memory_};
}

void Loader::DropLease(BankLease::Place place) {
  {
    MutexLock lock(mutex_);
    walk_.Drop(place.arena, place.bank);
  }
  Pump();
}

}  // namespace estream
