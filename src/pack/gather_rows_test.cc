// SPDX-License-Identifier: Apache-2.0
// Rows arrive where they were asked for, each read once, neighbours in one read.
#include "pack/gather_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/random.h"

namespace estream {
namespace {

constexpr uint64_t kRowBytes = 3;

// Row r holds r, r / 256, 7.
std::vector<std::byte> RowOf(uint64_t row) {
  return {static_cast<std::byte>(row), static_cast<std::byte>(row / 256), std::byte{7}};
}

struct Reads {
  std::vector<std::pair<uint64_t, uint64_t>> runs;  // first, rows
  Status Read(uint64_t first, uint64_t rows, std::span<std::byte> out) {
    EXPECT_EQ(out.size(), rows * kRowBytes);
    runs.emplace_back(first, rows);
    for (uint64_t r = 0; r < rows; ++r)
      std::ranges::copy(RowOf(first + r), out.begin() + static_cast<ptrdiff_t>(r * kRowBytes));
    return Status::Ok();
  }
};

void ExpectGathers(const std::vector<int32_t>& ids, Reads* reads) {
  std::vector<std::byte> out(ids.size() * kRowBytes);
  const auto read = [&](uint64_t first, uint64_t rows, std::span<std::byte> to) {
    return reads->Read(first, rows, to);
  };
  std::vector<std::pair<uint64_t, uint64_t>> announced;
  const auto will_read = [&](uint64_t first, uint64_t rows) {
    EXPECT_TRUE(reads->runs.empty()) << "announced after the first read";
    announced.emplace_back(first, rows);
  };
  ASSERT_TRUE(GatherRows(ids, kRowBytes, read, will_read, out).ok());
  EXPECT_EQ(announced, reads->runs);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::vector<std::byte> expected = RowOf(static_cast<uint64_t>(ids[i]));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + static_cast<ptrdiff_t>(i * kRowBytes))) << i;
  }
  std::set<uint64_t> seen;
  for (const auto& [first, rows] : reads->runs) {
    for (uint64_t r = first; r < first + rows; ++r) EXPECT_TRUE(seen.insert(r).second) << "row " << r << " read twice";
  }
  EXPECT_EQ(seen, std::set<uint64_t>(ids.begin(), ids.end()));
}

TEST(GatherRows, NeighboursAreReadTogether) {
  Reads reads;
  ExpectGathers({7, 5, 6, 5, 100, 0, 8}, &reads);
  EXPECT_EQ(reads.runs, (std::vector<std::pair<uint64_t, uint64_t>>{{0, 1}, {5, 4}, {100, 1}}));
}

TEST(GatherRows, NoRowsAreNoReads) {
  Reads reads;
  ExpectGathers({}, &reads);
  EXPECT_TRUE(reads.runs.empty());
}

TEST(GatherRows, AnyOrderAndRepetition) {
  Random random(std::random_device{}());
  SCOPED_TRACE(random.seed());
  for (const uint32_t count : {1u, 2u, 31u, 1000u}) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(random.Below(300));
    Reads reads;
    ExpectGathers(ids, &reads);
  }
}

TEST(GatherRows, LongRunsAreCut) {
  std::vector<int32_t> ids(200'000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  Reads reads;
  ExpectGathers(ids, &reads);
  EXPECT_GT(reads.runs.size(), 1u);
}

TEST(GatherRows, AReadErrorIsReturned) {
  std::vector<std::byte> out(kRowBytes);
  const std::vector<int32_t> ids = {1};
  const auto read = [](uint64_t, uint64_t, std::span<std::byte>) { return Status::Io("gone"); };
  EXPECT_EQ(GatherRows(ids, kRowBytes, read, nullptr, out).message(), "gone");
}

}  // namespace
}  // namespace estream
