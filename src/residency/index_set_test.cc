// SPDX-License-Identifier: Apache-2.0
// IndexSet against std::set.
#include "residency/index_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace estream {
namespace {

TEST(IndexSet, AgreesWithAnOrderedSet) {
  const uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  for (const uint32_t size : {1u, 2u, 63u, 64u, 65u, 127u, 128u, 129u, 1000u}) {
    IndexSet set;
    set.Reset(size);
    std::set<uint32_t> reference;
    for (int step = 0; step < 3000; ++step) {
      const uint32_t i = static_cast<uint32_t>(random() % size);
      // Long stretches of mostly growing and mostly shrinking.
      if (random() % 4 != 0 ? step / 500 % 2 == 0 : step / 500 % 2 == 1) {
        set.Insert(i);
        reference.insert(i);
      } else {
        set.Erase(i);
        reference.erase(i);
      }
      const uint32_t at = static_cast<uint32_t>(random() % (size + 1));
      const auto from = reference.lower_bound(at);
      const uint32_t first_from = from == reference.end() ? IndexSet::kNone : *from;
      const uint32_t last_before = from == reference.begin() ? IndexSet::kNone : *std::prev(from);
      ASSERT_EQ(set.From(at), first_from) << "seed " << seed << " size " << size << " step " << step;
      ASSERT_EQ(set.Before(at), last_before) << "seed " << seed << " size " << size << " step " << step;
      ASSERT_EQ(set.First(), reference.empty() ? IndexSet::kNone : *reference.begin()) << "seed " << seed;
      ASSERT_EQ(set.Last(), reference.empty() ? IndexSet::kNone : *reference.rbegin()) << "seed " << seed;
      ASSERT_EQ(set.contains(i), reference.contains(i));
      ASSERT_EQ(set.count(), reference.size());
    }
  }
}

TEST(IndexSet, OfSizeZeroHasNoMembers) {
  IndexSet set;
  set.Reset(0);
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.First(), IndexSet::kNone);
  EXPECT_EQ(set.Last(), IndexSet::kNone);
}

}  // namespace
}  // namespace estream
