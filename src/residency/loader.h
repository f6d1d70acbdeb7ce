// SPDX-License-Identifier: Apache-2.0
// The loader: walks a request's tape, keeps up to Q reads in flight and leases filled banks.                  (§3.4)
//
//   loader.Start(tape, options);                    early reads begin
//   per layer:  ... attention, router ...           meanwhile banks fill
//               loader.Decide(layer, routes);       skips what has no routes
//               for every group with routes, in order:
//                 lease = loader.Acquire({arena, layer, group});  submit; when its last invocation is complete, drop it
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "estream/status.h"
#include "residency/bank_arena.h"
#include "residency/read_engine.h"
#include "residency/tape_walk.h"

namespace estream {

class Loader;

// The right to read one bank until dropped (InUse); it is the pin.
//
// Threads: one at a time; may be dropped on another thread than the one that acquired it.
class BankLease {
 public:
  BankLease() = default;
  ~BankLease() { Drop(); }
  BankLease(BankLease&& o) noexcept
      : loader_(std::exchange(o.loader_, nullptr)),
        place_(o.place_),
        bank_offset_(o.bank_offset_),
        memory_(o.memory_) {}
  BankLease& operator=(BankLease&& o) noexcept;

  // Pre for all below: not empty().
  bool empty() const { return loader_ == nullptr; }
  uint32_t arena() const { return place_.arena; }
  uint32_t bank() const { return place_.bank; }
  // Where the bank begins in its arena: what an invocation adds to the arena's BufferRef.
  uint64_t bank_offset() const { return bank_offset_; }
  // The record's bytes: slot r at r · TapeRecord::record_bytes. With sparse reads only slots with routes are filled.
  std::span<std::byte> memory() const { return memory_; }

  // One more lease of the same bank; it becomes Available when the last is dropped.
  BankLease Share() const;
  void Drop();

 private:
  friend class Loader;
  struct Place {
    uint32_t arena = 0;
    uint32_t bank = 0;
  };
  BankLease(Loader* loader, Place place, uint64_t bank_offset, std::span<std::byte> memory)
      : loader_(loader), place_(place), bank_offset_(bank_offset), memory_(memory) {}

  Loader* loader_ = nullptr;
  Place place_;
  uint64_t bank_offset_ = 0;
  std::span<std::byte> memory_;
};

// An arena and the names its records may have.
struct LoaderArena {
  BankArena memory;
  uint32_t layers = 0;  // TapeRecord::layer < layers
  uint32_t groups = 0;  // TapeRecord::group < groups
};

// A completed read, for traces and profiles. Times are of LoaderOptions::now_ns.
struct ReadEvent {
  uint32_t record = 0;  // tape index when it was submitted
  uint64_t epoch = 0;   // of the request then
  uint64_t bytes = 0;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  bool ok = false;
};

struct LoaderOptions {
  std::vector<LoaderArena> arenas;                // numbered in this order
  uint32_t depth = 2;                             // Q: most reads in flight, at most the engine's depth
  std::function<uint64_t()> now_ns;               // default: the steady clock
  std::function<void(const ReadEvent&)> on_read;  // called on the engine's thread, with no lock held
};

// Since the loader was made.
struct LoaderCounts : WalkCounts {
  uint64_t stalls = 0;    // Acquires that had to wait
  uint64_t stall_ns = 0;  // time spent waiting in them
  uint64_t io_ns = 0;     // length of the union of read intervals, T_io
  uint32_t waiting = 0;   // Acquires that wait now
};

// Threads: one request thread calls Start, SetHorizon, Decide and Acquire, though Acquire may be called by several; all
//          other members by any thread. One mutex, never held while reads are submitted.
class Loader final : private ReadSink {
 public:
  // `engine` outlives the loader, reads into the arenas' banks and is used by nobody else meanwhile.
  //
  // Errors: InvalidArgument when the depth is zero or beyond the engine's.
  static Result<std::unique_ptr<Loader>> Create(ReadEngine* engine, LoaderOptions options);
  // Cancels. Pre: no lease is held.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Begins a request: early reads start at once. A request that is still running is cancelled, its reads in flight are
  // not waited for. Banks that the new tape would read first are kept.       Errors: see TapeWalk::Start.
  Status Start(std::shared_ptr<const Tape> tape, WalkOptions options) ES_EXCLUDES(mutex_);

  // Records before tape index `end` may be read unasked; never moves back.
  void SetHorizon(uint32_t end) ES_EXCLUDES(mutex_);

  // Routing of `layer` is known: routes[p] counts the routes of the expert at position p in pack order.
  //                                                                          Errors: see TapeWalk::Decide.
  Status Decide(uint32_t layer, std::span<const uint32_t> routes) ES_EXCLUDES(mutex_);

  // Waits for a record and leases its bank. Records are acquired in the order of the tape; any other order works too,
  // but reads more.
  //
  // Pre:    the caller leases no other bank of that arena that is dropped only after this returns, unless the arena has
  //         a bank left over; else it would wait for itself.
  // Errors: InvalidArgument when the record is not on the tape, is undecided, has no routes or was used; Cancelled; the
  //         read's error (asking again reads again).
  Result<BankLease> Acquire(const RecordId& id) ES_EXCLUDES(mutex_);
  // The same without waiting, for whoever still holds another lease; nothing when the record is not there yet.
  Result<std::optional<BankLease>> TryAcquire(const RecordId& id) ES_EXCLUDES(mutex_);

  // Ends the request: waiting Acquires fail with Cancelled, nothing more is read, and no read is in flight on return.
  // Leases stay valid. Start, not called before this returns, begins anew. Not from on_read.
  void Cancel() ES_EXCLUDES(mutex_);

  LoaderCounts counts() const ES_EXCLUDES(mutex_);

 private:
  friend class BankLease;
  // Reads that one round of Pump takes under the lock and submits without it.
  static constexpr uint32_t kBatch = 8;
  struct Departure {
    uint32_t flight = 0;
    PlannedRead read;
  };

  Loader(ReadEngine* engine, LoaderOptions options);

  void OnRead(uint64_t tag, const Status& status) override ES_EXCLUDES(mutex_);
  void Complete(uint32_t flight, const Status& status) ES_EXCLUDES(mutex_);
  void Pump() ES_EXCLUDES(mutex_);
  uint32_t TakeReads(std::span<Departure> reads) ES_EXCLUDES(mutex_);
  Result<std::optional<BankLease>> LeaseIfReady(uint32_t record) ES_REQUIRES(mutex_);
  Result<BankLease> WaitFor(const RecordId& id) ES_EXCLUDES(mutex_);
  void StopAndWakeWaiters() ES_REQUIRES(mutex_);
  BankLease AddLease(const BankLease& lease) ES_EXCLUDES(mutex_);
  void DropLease(BankLease::Place place) ES_EXCLUDES(mutex_);

  // Constant after construction.
  ReadEngine* const engine_;
  const LoaderOptions options_;

  // A read between TakeReads and Complete.
  struct Flight {
    PlannedRead read;
    uint64_t epoch = 0;
    uint64_t begin_ns = 0;
  };

  mutable Mutex mutex_;
  CondVar changed_;  // a read ended, the request ended, a waiter left, or the last sink returned
  TapeWalk walk_ ES_GUARDED_BY(mutex_);
  std::vector<Flight> flights_ ES_GUARDED_BY(mutex_);         // [depth]
  std::vector<uint32_t> free_flights_ ES_GUARDED_BY(mutex_);  // indices of those not in flight
  uint64_t epoch_ ES_GUARDED_BY(mutex_) = 0;
  uint32_t in_flight_ ES_GUARDED_BY(mutex_) = 0;  // taken from the walk and not completed
  uint32_t sinks_ ES_GUARDED_BY(mutex_) = 0;      // OnRead calls that have not returned
  uint32_t waiters_ ES_GUARDED_BY(mutex_) = 0;    // Acquires that are waiting
  uint64_t busy_since_ns_ ES_GUARDED_BY(mutex_) = 0;
  LoaderCounts counts_ ES_GUARDED_BY(mutex_);
};

}  // namespace estream
