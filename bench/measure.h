// SPDX-License-Identifier: Apache-2.0
// Timing a piece of work: repeats, the median.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace estream {

// How long to measure. Medians of few, longer samples for a glance, of more for figures worth quoting.
struct Effort {
  uint32_t repeats = 15;
  double sample_seconds = 0.02;  // a sample repeats the work until it has lasted this long
};
inline constexpr Effort kQuick = {5, 0.005};
inline constexpr Effort kThorough = {15, 0.02};

// Seconds on `clock` since some moment.
inline double Now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Work of this thread only: what other processes take does not count.
inline constexpr clockid_t kThreadClock = CLOCK_THREAD_CPUTIME_ID;
inline constexpr clockid_t kWallClock = CLOCK_MONOTONIC;

inline double Median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// The median time of one work(), in seconds. The first call warms up and finds out how many calls a sample needs.
template <class Work>
double MedianSeconds(const Effort& effort, clockid_t clock, const Work& work) {
  const double start = Now(clock);
  work();
  const double once = std::max(Now(clock) - start, 1e-9);
  const auto calls = static_cast<uint64_t>(std::max(1.0, effort.sample_seconds / once));
  std::vector<double> samples;
  for (uint32_t i = 0; i < effort.repeats; ++i) {
    const double begin = Now(clock);
    for (uint64_t c = 0; c < calls; ++c) work();
    samples.push_back((Now(clock) - begin) / static_cast<double>(calls));
  }
  return Median(std::move(samples));
}

}  // namespace estream
