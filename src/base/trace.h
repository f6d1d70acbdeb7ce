// SPDX-License-Identifier: Apache-2.0
// What happened when: spans on a few tracks, written as Chrome/Perfetto trace events.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace estream {

// Nanoseconds of the steady clock; all spans use it.
uint64_t NowNs();

// Rows of the picture. kDevice shows parts of what kCompute shows as a whole.
enum class TraceTrack : uint8_t { kCompute, kWait, kRead, kPublish, kDevice };

// Collects spans; a null recorder pointer means tracing is off.
//
// Threads: any.
class TraceRecorder {
 public:
  struct Span {
    TraceTrack track = TraceTrack::kCompute;
    const char* name = "";  // a literal: "attention", "experts", "read", ...
    uint32_t layer = 0;
    uint32_t group = 0;
    uint64_t bytes = 0;  // moved, or 0
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
  };

  // Memory is bounded: spans beyond `max_spans` are counted and dropped.
  explicit TraceRecorder(size_t max_spans = 1 << 20) : max_spans_(max_spans) {}

  void Add(const Span& span);
  std::vector<Span> spans() const;
  uint64_t dropped() const;

  // A JSON object with "traceEvents": complete events in microseconds from the first span, one thread a track.
  std::string ToJson() const;

 private:
  const size_t max_spans_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;  // guarded by mutex_
  uint64_t dropped_ = 0;     // guarded by mutex_
};

// Adds the stretch from its construction to its destruction; nothing without a recorder.
class TraceSpan {
 public:
  TraceSpan(TraceRecorder* trace, TraceTrack track, const char* name)
      : trace_(trace), track_(track), name_(name), begin_ns_(trace != nullptr ? NowNs() : 0) {}
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->Add({track_, name_, 0, 0, 0, begin_ns_, NowNs()});
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceRecorder* const trace_;
  const TraceTrack track_;
  const char* const name_;
  const uint64_t begin_ns_;
};

// The length of the union of intervals [begin, end), in nanoseconds: T_io and T_exec are such lengths.       (Fig. 6)
uint64_t UnionNs(std::vector<std::pair<uint64_t, uint64_t>> intervals);

}  // namespace estream
