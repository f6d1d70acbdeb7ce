// SPDX-License-Identifier: Apache-2.0
// Ids are walked in ascending order; a run of neighbours is read in one piece and spread to where its rows belong.
#include "pack/gather_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/macros.h"

namespace estream {
namespace {

constexpr uint64_t kMaxRunBytes = 256 << 10;

// Consecutive table rows [first, first + rows), and whom they are for: order[begin, end).
struct Run {
  uint64_t first = 0;
  uint64_t rows = 0;
  size_t begin = 0;
  size_t end = 0;
};

// The ids in `order`, ascending, cut where a row is left out or `max_rows` is reached.
std::vector<Run> FindRuns(std::span<const int32_t> ids, std::span<const uint32_t> order, int64_t max_rows) {
  std::vector<Run> runs;
  for (size_t i = 0; i < order.size();) {
    const int64_t first = ids[order[i]];
    int64_t last = first;
    size_t end = i + 1;
    for (; end < order.size() && ids[order[end]] <= last + 1 && ids[order[end]] < first + max_rows; ++end) {
      last = ids[order[end]];
    }
    runs.push_back({static_cast<uint64_t>(first), static_cast<uint64_t>(last - first + 1), i, end});
    i = end;
  }
  return runs;
}

}  // namespace

Status GatherRows(std::span<const int32_t> ids, uint64_t row_bytes, const RowReader& read, const RowHint& will_read,
                  std::span<std::byte> out) {
  ES_CHECK(out.size() == ids.size() * row_bytes);
  std::vector<uint32_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return ids[a] < ids[b]; });
  const auto max_rows = static_cast<int64_t>(std::max<uint64_t>(1, kMaxRunBytes / row_bytes));
  const std::vector<Run> runs = FindRuns(ids, order, max_rows);
  if (will_read) {
    for (const Run& run : runs) will_read(run.first, run.rows);
  }

  std::vector<std::byte> bytes;
  for (const Run& run : runs) {
    bytes.resize(run.rows * row_bytes);
    ES_RETURN_IF_ERROR(read(run.first, run.rows, bytes));
    for (size_t i = run.begin; i < run.end; ++i) {
      const uint64_t row = static_cast<uint64_t>(ids[order[i]]) - run.first;
      std::memcpy(out.data() + order[i] * row_bytes, bytes.data() + row * row_bytes, row_bytes);
    }
  }
  return Status::Ok();
}

}  // namespace estream
