// SPDX-License-Identifier: Apache-2.0
// No events and no queue of them: reads start in tape order, so one pass over the tape knows, when it comes to a group,
// when each bank and each read slot is free again. What is eq. 5 in it stays eq. 5: d_{k-Q} becomes the earliest free
// slot and f_{k-B} the earliest free bank, which are the same while completions are in order.
#include "pipeline/pipe_model.h"

#include <algorithm>
#include <compare>
#include <utility>

namespace estream {
namespace {

// When something happens, and which step of the executor did it (0: a completed read), since what happens at one
// instant has an order: completed reads, then the executor's steps one by one.
struct Instant {
  uint64_t ns = 0;
  uint64_t step = 0;

  auto operator<=>(const Instant&) const = default;
};

// Resources by the time each is free again: a heap whose top is the earliest.
template <class Time>
class FreeTimes {
 public:
  explicit FreeTimes(uint32_t count) : heap_(count) {}

  const Time& earliest() const { return heap_[0]; }
  const std::vector<Time>& all() const { return heap_; }
  // The earliest is taken and free again at `time`.
  void Take(const Time& time) {
    size_t hole = 0;
    for (size_t child = 1; child < heap_.size(); child = 2 * hole + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (time <= heap_[child]) break;
      heap_[hole] = heap_[child];
      hole = child;
    }
    heap_[hole] = time;
  }

 private:
  std::vector<Time> heap_;
};

// The length of a union of intervals that come in the order of their beginnings.
class UnionLength {
 public:
  void Add(uint64_t begin, uint64_t end) {
    if (begin > end_) {
      closed_ += end_ - begin_;
      begin_ = begin;
    }
    end_ = std::max(end_, end);
  }
  // Pre: no interval begins behind `time`.
  uint64_t Before(uint64_t time) const { return closed_ + std::min(end_, time) - begin_; }

 private:
  uint64_t closed_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

class Simulation {
 public:
  Simulation(Schedule schedule, const StreamShape& shape, uint32_t filled)
      : schedule_reach_(ReachOf(schedule)), filled_(filled), banks_(shape.bank_count), slots_(shape.queue_depth) {}

  ModelOutcome Run(const ModelRequest& request) {
    for (const ModelLayer& layer : request.layers) RunLayer(layer);
    Compute(request.tail_ns);
    out_.total_ns = now_;
    out_.io_ns = io_.Before(now_);
    // Whatever is still being read now is not needed: the groups that were have run.
    const auto flying = std::count_if(slots_.all().begin(), slots_.all().end(), [&](uint64_t d) { return d > now_; });
    out_.reads -= static_cast<uint64_t>(flying);
    out_.wasted_reads -= static_cast<uint64_t>(flying);
    return out_;
  }

 private:
  void RunLayer(const ModelLayer& layer) {
    begun_ = {now_, step_};
    Compute(layer.block_ns);
    decided_ = {now_, ++step_};
    ++step_;  // that of the layer's groups
    reach_ = layer.early ? schedule_reach_ : std::min(schedule_reach_, Reach::kRouted);
    for (const ModelGroup& group : layer.groups) PassGroup(group);
  }

  void PassGroup(const ModelGroup& group) {
    const Instant start = std::max({MayStart(), banks_.earliest(), Instant{slots_.earliest(), 0}});
    const bool early = start < decided_;
    if (!group.routed && !early) return;
    const uint64_t done = filled_ > 0 ? 0 : Read(group, start.ns, early);
    if (filled_ > 0) --filled_;
    if (group.routed) {
      const uint64_t ready = std::max(done, now_);
      out_.stall_ns += ready - now_;
      now_ = ready;
      Compute(group.exec_ns);
      banks_.Take({now_, step_});
    } else {
      ++out_.wasted_reads;
      banks_.Take(std::max(Instant{done, 0}, decided_));
    }
  }

  // From when on the schedule lets the next group of the layer be read.
  Instant MayStart() const {
    switch (reach_) {
      case Reach::kAsked:
        return {now_, step_};
      case Reach::kRouted:
        return decided_;
      case Reach::kLayer:
        return begun_;
      case Reach::kTape:
        break;
    }
    return {};
  }

  // Returns when the group is there.
  uint64_t Read(const ModelGroup& group, uint64_t start, bool early) {
    if (early || group.run_ns.empty()) return ReadRun(start, group.read_ns);
    uint64_t done = start;
    for (const uint64_t run : group.run_ns) done = std::max(done, ReadRun(start, run));
    return done;
  }

  uint64_t ReadRun(uint64_t start, uint64_t length) {
    start = std::max(start, slots_.earliest());
    slots_.Take(start + length);
    io_.Add(start, start + length);
    ++out_.reads;
    return start + length;
  }

  void Compute(uint64_t length) {
    now_ += length;
    out_.exec_ns += length;
  }

  const Reach schedule_reach_;
  uint32_t filled_;            // so many of the next groups are in banks from the start
  FreeTimes<Instant> banks_;   // [B]
  FreeTimes<uint64_t> slots_;  // [Q]
  UnionLength io_;

  uint64_t now_ = 0;             // the executor's time
  uint64_t step_ = 0;            // its last step
  Instant begun_;                // the layer
  Instant decided_;              // its routes: T_route
  Reach reach_ = Reach::kAsked;  // its own
  ModelOutcome out_;
};

}  // namespace

double ModelOutcome::bubble_rate() const {
  if (total_ns == 0) return 0;
  return 1 - static_cast<double>(std::max(io_ns, exec_ns)) / static_cast<double>(total_ns);
}

// a_k = max(d_{k-q}, f_{k-b}),  d_k = a_k + L_k,  s_k = max(d_k, T_ne, f_{k-1}),  f_k = s_k + X_k,  T = f_K.   (eq. 5)
uint64_t LayerTime(const ModelLayer& layer, uint32_t queue_depth, uint32_t bank_count) {
  std::vector<uint64_t> d(queue_depth);  // of the last q groups
  std::vector<uint64_t> f(bank_count);   // of the last b groups
  uint64_t finished = layer.block_ns;    // max(T_ne, f_{k-1})
  size_t k = 0;
  for (const ModelGroup& group : layer.groups) {
    if (!group.routed) continue;
    uint64_t& read = d[k % queue_depth];
    uint64_t& run = f[k % bank_count];
    read = std::max(read, run) + group.read_ns;
    run = finished = std::max(read, finished) + group.exec_ns;
    ++k;
  }
  return finished;
}

ModelOutcome Simulate(const ModelRequest& request, Schedule schedule, const StreamShape& shape, uint32_t filled) {
  return Simulation(schedule, shape, filled).Run(request);
}

}  // namespace estream
