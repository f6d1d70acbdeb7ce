// SPDX-License-Identifier: Apache-2.0
// Buffers: numbers, ranges, the ledger.
#include "device/buffer_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace estream {
namespace {

TEST(BufferTable, MemoryIsZeroedPageAlignedAndRegistered) {
  MemoryLedger ledger;
  {
    BufferTable table(&ledger);
    auto buffer = table.Allocate(5000, "x");
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->id, 1u);
    EXPECT_EQ(buffer->bytes, 5000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->host) % kPageBytes, 0u);
    EXPECT_TRUE(std::all_of(buffer->host, buffer->host + 5000, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(ledger.TotalBytes(), 2 * kPageBytes);
    table.Free(*buffer);
    EXPECT_EQ(ledger.TotalBytes(), 0u);
    ASSERT_TRUE(table.Allocate(1, "y").ok());
  }
  EXPECT_EQ(ledger.TotalBytes(), 0u);
}

// Some hundred pages more than a whole number of huge pages, wherever it starts.
TEST(BufferTable, LargeBuffersAreNoLargerAndZeroedToo) {
  MemoryLedger ledger;
  BufferTable table(&ledger);
  constexpr uint64_t kBytes = (uint64_t{8} << 20) + 300 * kPageBytes;
  auto buffer = table.Allocate(kBytes, "x");
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(ledger.TotalBytes(), kBytes);
  EXPECT_TRUE(std::all_of(buffer->host, buffer->host + kBytes, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(BufferTable, ResolveKeepsInsideTheBuffer) {
  BufferTable table(nullptr);
  auto buffer = table.Allocate(100, "x");
  ASSERT_TRUE(buffer.ok());
  struct Case {
    uint64_t offset, bytes;
    bool inside;
  };
  const Case cases[] = {{0, 100, true},           {0, 101, false},          {99, 1, true},
                        {100, 0, true},           {100, 1, false},          {101, 0, false},
                        {~uint64_t{0}, 1, false}, {1, ~uint64_t{0}, false}, {~uint64_t{0}, ~uint64_t{0}, false}};
  for (const Case& c : cases) {
    auto place = table.Resolve(buffer->ref(c.offset), c.bytes);
    EXPECT_EQ(place.ok(), c.inside) << c.offset << " " << c.bytes;
    if (c.inside) {
      EXPECT_EQ(*place, buffer->host + c.offset);
    } else {
      EXPECT_EQ(place.status().code(), StatusCode::kInvalidArgument);
    }
  }
}

TEST(BufferTable, StaleAndUnknownNumbersAreRefused) {
  BufferTable table(nullptr);
  auto first = table.Allocate(8, "first");
  ASSERT_TRUE(first.ok());
  table.Free(*first);
  table.Free(*first);
  auto second = table.Allocate(8, "second");
  ASSERT_TRUE(second.ok());
  EXPECT_NE(first->id, second->id);
  EXPECT_FALSE(table.Resolve(first->ref(), 1).ok());
  EXPECT_FALSE(table.Resolve(BufferRef{}, 0).ok());
  EXPECT_TRUE(table.Resolve(second->ref(), 8).ok());
}

TEST(BufferTable, ImpossibleSizesAreErrors) {
  BufferTable table(nullptr);
  EXPECT_EQ(table.Allocate(0, "empty").status().code(), StatusCode::kInvalidArgument);
  auto huge = table.Allocate(~uint64_t{0} - 1, "huge");
  EXPECT_EQ(huge.status().code(), StatusCode::kOverBudget);
  EXPECT_NE(huge.status().message().find("huge"), std::string::npos);
}

}  // namespace
}  // namespace estream
