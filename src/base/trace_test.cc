// SPDX-License-Identifier: Apache-2.0
// Unions of intervals, and traces that a JSON reader accepts.
#include "base/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace estream {
namespace {

TEST(UnionNs, CountsOverlapsOnce) {
  EXPECT_EQ(UnionNs({}), 0u);
  EXPECT_EQ(UnionNs({{5, 5}}), 0u);
  EXPECT_EQ(UnionNs({{10, 20}, {0, 5}}), 15u);
  EXPECT_EQ(UnionNs({{0, 10}, {2, 3}, {5, 15}, {15, 16}}), 16u);
}

TEST(TraceRecorder, WritesEventsInOrderWithOverlappingReadsApart) {
  TraceRecorder trace;
  trace.Add({TraceTrack::kRead, "read", 1, 2, 4096, 3000, 9000});
  trace.Add({TraceTrack::kRead, "read", 1, 3, 4096, 4000, 8000});
  trace.Add({TraceTrack::kCompute, "attention", 1, 0, 0, 2000, 5000});
  const auto json = nlohmann::json::parse(trace.ToJson());
  const auto& events = json.at("traceEvents");
  EXPECT_EQ(events[0].at("name"), "attention");
  EXPECT_EQ(events[0].at("ts"), 0.0);
  EXPECT_EQ(events[0].at("dur"), 3.0);
  EXPECT_NE(events[1].at("tid"), events[2].at("tid"));
  EXPECT_EQ(events[1].at("args").at("bytes"), 4096);
}

TEST(TraceSpan, RecordsItsLifeAndNothingWithoutARecorder) {
  TraceRecorder trace;
  const uint64_t before = NowNs();
  {
    const TraceSpan span(&trace, TraceTrack::kDevice, "product");
    const TraceSpan none(nullptr, TraceTrack::kDevice, "product");
  }
  ASSERT_EQ(trace.spans().size(), 1u);
  const TraceRecorder::Span span = trace.spans()[0];
  EXPECT_STREQ(span.name, "product");
  EXPECT_LE(before, span.begin_ns);
  EXPECT_LE(span.begin_ns, span.end_ns);
  EXPECT_LE(span.end_ns, NowNs());
}

TEST(TraceRecorder, IsBoundedAndSaysWhatItDropped) {
  TraceRecorder trace(2);
  for (int i = 0; i < 5; ++i) trace.Add({});
  EXPECT_EQ(trace.spans().size(), 2u);
  EXPECT_EQ(trace.dropped(), 3u);
}

}  // namespace
}  // namespace estream
