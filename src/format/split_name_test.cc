// SPDX-License-Identifier: Apache-2.0
// Which names belong to a split set.
#include "format/split_name.h"

#include <gtest/gtest.h>

namespace estream {
namespace {

TEST(SplitName, ReadsPrefixNumberAndCount) {
  const auto name = ParseSplitName("/models/big-00002-of-00010.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "/models/big");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 10u);
  EXPECT_EQ(name->prefix + SplitSuffix(name->number, name->count), "/models/big-00002-of-00010.gguf");
}

TEST(SplitName, OnlyTheLastSuffixCounts) {
  const auto name = ParseSplitName("a-00001-of-00002.gguf-00003-of-00004.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "a-00001-of-00002.gguf");
  EXPECT_EQ(name->number, 3u);
}

TEST(SplitName, OtherNamesAreNone) {
  for (const char* path :
       {"", "model.gguf", "model-1-of-2.gguf", "model-00000-of-00002.gguf", "model-00003-of-00002.gguf",
        "model-00001-of-00002.GGUF", "model-0000a-of-00002.gguf", "model-00001-of-00002.gguf.part",
        "model_00001-of-00002.gguf", "model-00001_of_00002.gguf", "model-+0001-of-00002.gguf", "0001-of-00002.gguf"}) {
    EXPECT_FALSE(ParseSplitName(path).has_value()) << path;
  }
  EXPECT_TRUE(ParseSplitName("-00001-of-00001.gguf").has_value());  // an empty prefix is odd but a name
}

}  // namespace
}  // namespace estream
