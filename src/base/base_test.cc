// SPDX-License-Identifier: Apache-2.0
// The small tools everything stands on: status, sizes, halves, memory, ledger.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/half.h"
#include "base/ledger.h"
#include "base/macros.h"
#include "estream/status.h"

namespace estream {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

Result<int> Half(int x) {
  if (x % 2 != 0) return Status::InvalidArgument("odd");
  return x / 2;
}

Result<int> Quarter(int x) {
  ES_ASSIGN_OR_RETURN(const int half, Half(x));
  ES_RETURN_IF_ERROR(Half(half).status());
  return half / 2;
}

TEST(Status, TravelsUpThroughResults) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Quarter(6).status().WithPrefix("f: ").message(), "f: odd");
  EXPECT_TRUE(Status().WithPrefix("f: ").ok());
  EXPECT_STREQ(StatusCodeName(StatusCode::kOverBudget), "over budget");
}

TEST(CheckedMath, NeverWraps) {
  EXPECT_EQ(CheckedMul(1u << 31, 1u << 31), uint64_t{1} << 62);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMax, 0), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAlignUp(0, 4096), 0u);
  EXPECT_EQ(CheckedAlignUp(1, 4096), 4096u);
  EXPECT_EQ(CheckedAlignUp(4096, 4096), 4096u);
  EXPECT_EQ(CheckedAlignUp(kMax, 4096), std::nullopt);
  EXPECT_EQ(CeilDiv(33, 32), 2u);
}

TEST(Half, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = HalfToFloat(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(f))));
      continue;
    }
    ASSERT_EQ(FloatToHalf(f), h) << f;
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3C00) << "a tie goes to the even neighbour below";
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-10f + 0x1p-11f), 0x3C02) << "and above";
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f + 0x1p-20f), 0x3C01);
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00) << "rounds to infinity";
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000) << "half of the smallest subnormal is a tie to zero";
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(Bf16ToFloat(0x3F80), 1.0f);
}

TEST(AlignedBuffer, IsZeroedPagesAndMovesWithoutCopying) {
  auto buffer = AlignedBuffer::Allocate(5000);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->bytes(), 2 * kPageBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kPageBytes, 0u);
  for (const std::byte b : buffer->span()) ASSERT_EQ(b, std::byte{0});
  const std::byte* data = buffer->data();
  AlignedBuffer other = std::move(*buffer);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(AlignedBuffer::Allocate(0)->data(), nullptr);
  EXPECT_EQ(AlignedBuffer::Allocate(kMax).status().code(), StatusCode::kOverBudget);
}

TEST(MemoryLedger, KnowsWhatIsHeldAndWhatWasTheMost) {
  MemoryLedger ledger;
  {
    const MemoryLedger::Hold a(&ledger, "arena", 100);
    MemoryLedger::Hold b(&ledger, "logits", 30);
    const MemoryLedger::Hold moved = std::move(b);
    EXPECT_EQ(ledger.TotalBytes(), 130u);
  }
  const MemoryLedger::Hold c(&ledger, "arena", 50);
  EXPECT_EQ(ledger.TotalBytes(), 50u);
  EXPECT_EQ(ledger.PeakTotalBytes(), 130u);
  const auto entries = ledger.Entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "arena");
  EXPECT_EQ(entries[0].bytes, 50u);
  EXPECT_EQ(entries[0].peak_bytes, 100u);
  EXPECT_EQ(entries[1].bytes, 0u);
}

}  // namespace
}  // namespace estream
