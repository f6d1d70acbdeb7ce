// SPDX-License-Identifier: Apache-2.0
// Sums and copies of 256 MiB, cut into one part a thread.
#include "bench/memory_speed.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/macros.h"

namespace estream {
namespace {

constexpr uint64_t kBufferBytes = uint64_t{256} << 20;

// A sum that the compiler vectorises and that waits for memory only: 16 independent lanes.
uint64_t Sum(const std::byte* data, uint64_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t lanes[16] = {};
  for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i += 16) {
    for (uint64_t l = 0; l < 16; ++l) lanes[l] += words[i + l];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

// GB/s of `part(start, bytes)` called once for each of `parts` equal parts.
template <class Part>
double Speed(const Effort& effort, ThreadPool& pool, uint32_t parts, const Part& part) {
  const uint64_t bytes = kBufferBytes / parts & ~uint64_t{4095};
  const auto all = [&](uint32_t, uint64_t item) { part(item * bytes, bytes); };
  const double seconds = MedianSeconds(effort, kWallClock, [&] { pool.Run(parts, all); });
  return 1e-9 * static_cast<double>(bytes * parts) / seconds;
}

}  // namespace

Result<ReportTable> MeasureMemory(const Effort& effort, ThreadPool& pool) {
  ES_ASSIGN_OR_RETURN(AlignedBuffer source, AlignedBuffer::Allocate(kBufferBytes));
  ES_ASSIGN_OR_RETURN(AlignedBuffer target, AlignedBuffer::Allocate(kBufferBytes));
  std::memset(source.data(), 1, kBufferBytes);
  std::memset(target.data(), 2, kBufferBytes);
  std::atomic<uint64_t> keep{0};
  const auto read = [&](uint64_t start, uint64_t bytes) { keep += Sum(source.data() + start, bytes); };
  const auto copy = [&](uint64_t start, uint64_t bytes) {
    std::memcpy(target.data() + start, source.data() + start, bytes);
  };
  ReportTable table = {.title = "Memory, GB/s", .label = "", .columns = {"1 thread"}, .rows = {}};
  ReportTable::Row reads = {"read", {Speed(effort, pool, 1, read)}};
  ReportTable::Row copies = {"copy", {Speed(effort, pool, 1, copy)}};
  if (pool.threads() > 1) {
    table.columns.push_back(fmt::format("{} threads", pool.threads()));
    reads.values.push_back(Speed(effort, pool, pool.threads(), read));
    copies.values.push_back(Speed(effort, pool, pool.threads(), copy));
  }
  table.rows = {std::move(reads), std::move(copies)};
  return table;
}

}  // namespace estream
