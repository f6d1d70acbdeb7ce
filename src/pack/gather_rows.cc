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

}  // namespace

Status GatherRows(std::span<const int32_t> ids, uint64_t row_bytes, const RowReader& read, std::span<std::byte> out) {
  ES_CHECK(out.size() == ids.size() * row_bytes);
  std::vector<uint32_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return ids[a] < ids[b]; });
  const auto max_rows = static_cast<int64_t>(std::max<uint64_t>(1, kMaxRunBytes / row_bytes));

  std::vector<std::byte> run;
  for (size_t i = 0; i < order.size();) {
    const int64_t first = ids[order[i]];
    int64_t last = first;
    size_t end = i + 1;
    for (; end < order.size() && ids[order[end]] <= last + 1 && ids[order[end]] < first + max_rows; ++end) {
      last = ids[order[end]];
    }
    const auto rows = static_cast<uint64_t>(last - first + 1);
    run.resize(rows * row_bytes);
    ES_RETURN_IF_ERROR(read(static_cast<uint64_t>(first), rows, run));
    for (; i < end; ++i) {
      const auto row = static_cast<uint64_t>(ids[order[i]] - first);
      std::memcpy(out.data() + order[i] * row_bytes, run.data() + row * row_bytes, row_bytes);
    }
  }
  return Status::Ok();
}

}  // namespace estream
