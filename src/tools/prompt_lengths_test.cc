// SPDX-License-Identifier: Apache-2.0
// Lists and files of lengths.
#include "tools/prompt_lengths.h"

#include <gmock/gmock.h>

#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PromptLengths, ListsAreTakenAsGiven) {
  EXPECT_THAT(*ParseLengths("64, 16,16777216"), ElementsAre(64, 16, 16777216));
  for (const char* wrong : {"", "0", "16777217", "a", "1,,2", "-1"}) EXPECT_FALSE(ParseLengths(wrong)) << wrong;
}

TEST(PromptLengths, AFileOfManyBecomesEqualShares) {
  const TempDir dir;
  std::string lines;
  for (int i = 1; i <= 800; ++i) lines += std::to_string(i) + "\n";
  WriteBinary(dir.File("lengths"), lines);
  EXPECT_THAT(*ReadLengths(dir.File("lengths")), ElementsAre(51, 151, 251, 351, 451, 551, 651, 751));
  WriteBinary(dir.File("few"), "7\n\n3\n");
  EXPECT_THAT(*ReadLengths(dir.File("few")), ElementsAre(3, 7));
}

TEST(PromptLengths, WhatIsNoLengthIsNamed) {
  const TempDir dir;
  WriteBinary(dir.File("bad"), "7\nseven\n");
  EXPECT_THAT(ReadLengths(dir.File("bad")).status().message(), HasSubstr("line 2: expected a prompt length"));
  WriteBinary(dir.File("empty"), "\n");
  EXPECT_THAT(ReadLengths(dir.File("empty")).status().message(), HasSubstr("holds no lengths"));
  EXPECT_FALSE(ReadLengths(dir.File("none")).ok());
}

}  // namespace
}  // namespace estream
