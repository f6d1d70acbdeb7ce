// SPDX-License-Identifier: Apache-2.0
// Which panel a thread is told to fetch is the one that it multiplies next.
#include "device/cpu/panel_product.h"

#include <gtest/gtest.h>

#include <vector>

namespace estream {
namespace {

TEST(PanelShares, NextIsWhatTheThreadMultipliesNext) {
  const std::byte other[1] = {};
  const auto after = [&] { return std::span<const std::byte>(other); };
  for (const uint64_t panels : {1u, 2u, 3u, 7u, 8u, 24u, 33u, 64u, 448u}) {
    MatrixSpec spec{WeightFormat::kQ4_0, static_cast<uint32_t>(panels * kTileRows), kTileElements, 0, 0};
    const std::vector<std::byte> bytes(TiledBytes(spec.format, spec.rows, spec.cols));
    const TiledMatrix w(spec, bytes.data());
    for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
      for (const uint64_t most : {1u, 4u}) {
        const PanelShares shares(threads, panels, most);
        EXPECT_LE(shares.at_once(), most);
        EXPECT_LT((shares.items() - 1) * shares.at_once(), panels);
        EXPECT_GE(shares.items() * shares.at_once(), panels);
        for (uint32_t t = 0; t < threads; ++t) {
          SCOPED_TRACE(testing::Message()
                       << panels << " panels, " << threads << " threads, up to " << most << ", " << t);
          const uint64_t begin = ThreadPool::ShareBegin(shares.items(), t, threads);
          const uint64_t end = ThreadPool::ShareBegin(shares.items(), t + 1, threads);
          EXPECT_EQ(shares.First(t), begin * shares.at_once());
          for (uint64_t item = 0; item < shares.items(); ++item) {
            const std::span<const std::byte> next = shares.Next(t, item, w, 0, after);
            if (item < begin || item >= end) {
              EXPECT_TRUE(next.empty()) << item;
            } else if (item + 1 == end) {
              EXPECT_EQ(next.data(), other) << item;
            } else {
              EXPECT_EQ(next.data(), w.panel((item + 1) * shares.at_once())) << item;
              EXPECT_EQ(next.size(), w.panel_bytes);
            }
          }
        }
      }
    }
  }
}

TEST(TiledMatrix, HasNoPanelsBeyondItsEndAndNoneWithoutData) {
  const MatrixSpec spec{WeightFormat::kQ8_0, 40, 64, 0, 0};  // two panels, the second with 8 rows
  const std::vector<std::byte> bytes(TiledBytes(spec.format, spec.rows, spec.cols));
  TiledMatrix w(spec, bytes.data());
  EXPECT_EQ(w.panel_if(1).data() + w.panel_if(1).size(), bytes.data() + bytes.size());
  EXPECT_TRUE(w.panel_if(2).empty());
  w.data = nullptr;
  EXPECT_TRUE(w.panel_if(0).empty());
}

}  // namespace
}  // namespace estream
