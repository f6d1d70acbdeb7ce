// SPDX-License-Identifier: Apache-2.0
// One vector under a lock: a few spans a group, thousands a request.
#include "base/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

namespace estream {
namespace {

const char* TrackName(TraceTrack track) {
  switch (track) {
    case TraceTrack::kCompute:
      return "compute";
    case TraceTrack::kWait:
      return "wait";
    case TraceTrack::kRead:
      return "read";
    case TraceTrack::kPublish:
      return "publish";
    case TraceTrack::kDevice:
      return "device";
  }
  return "";
}

// Reads overlap each other; a viewer needs one row for each of those in flight at once.
class ReadRows {
 public:
  uint32_t RowOf(uint64_t begin_ns, uint64_t end_ns) {
    for (size_t i = 0; i < busy_until_.size(); ++i) {
      if (busy_until_[i] > begin_ns) continue;
      busy_until_[i] = end_ns;
      return static_cast<uint32_t>(i);
    }
    busy_until_.push_back(end_ns);
    return static_cast<uint32_t>(busy_until_.size() - 1);
  }

 private:
  std::vector<uint64_t> busy_until_;
};

}  // namespace

uint64_t NowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void TraceRecorder::Add(const Span& span) {
  std::lock_guard lock(mutex_);
  if (spans_.size() < max_spans_) {
    spans_.push_back(span);
  } else {
    ++dropped_;
  }
}

std::vector<TraceRecorder::Span> TraceRecorder::spans() const {
  std::lock_guard lock(mutex_);
  return spans_;
}

uint64_t TraceRecorder::dropped() const {
  std::lock_guard lock(mutex_);
  return dropped_;
}

std::string TraceRecorder::ToJson() const {
  std::vector<Span> sorted = spans();
  std::stable_sort(sorted.begin(), sorted.end(), [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  const uint64_t zero = sorted.empty() ? 0 : sorted.front().begin_ns;
  ReadRows read_rows;
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  auto out = std::back_inserter(json);
  for (const Span& s : sorted) {
    const uint32_t row = s.track == TraceTrack::kRead ? read_rows.RowOf(s.begin_ns, s.end_ns) : 0;
    fmt::format_to(out,
                   "{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
                   "\"args\":{{\"layer\":{},\"group\":{},\"bytes\":{}}}}},\n",
                   s.name, TrackName(s.track), static_cast<uint32_t>(s.track) * 100 + row,
                   static_cast<double>(s.begin_ns - zero) / 1e3, static_cast<double>(s.end_ns - s.begin_ns) / 1e3,
                   s.layer, s.group, s.bytes);
  }
  for (const TraceTrack t :
       {TraceTrack::kCompute, TraceTrack::kWait, TraceTrack::kRead, TraceTrack::kPublish, TraceTrack::kDevice}) {
    fmt::format_to(out,
                   "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},\"args\":{{\"name\":\"{}\"}}}},\n",
                   static_cast<uint32_t>(t) * 100, TrackName(t));
  }
  fmt::format_to(out, "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{{\"name\":\"estream\"}}}}\n]");
  fmt::format_to(out, ",\"otherData\":{{\"dropped_spans\":{}}}}}\n", dropped());
  return json;
}

uint64_t UnionNs(std::vector<std::pair<uint64_t, uint64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  uint64_t total = 0, covered_to = 0;
  for (const auto& [begin, end] : intervals) {
    const uint64_t from = std::max(begin, covered_to);
    if (end > from) total += end - from;
    covered_to = std::max(covered_to, end);
  }
  return total;
}

}  // namespace estream
