// SPDX-License-Identifier: Apache-2.0
// Distances, and which typing mistakes are recognised.
#include "tools/nearest.h"

#include <gtest/gtest.h>

namespace estream {
namespace {

TEST(EditDistance, CountsChangesAndSwaps) {
  struct Case {
    const char *a, *b;
    size_t distance;
  };
  const Case cases[] = {{"", "", 0},       {"", "abc", 3},          {"abc", "", 3},           {"run", "run", 0},
                        {"rnu", "run", 1}, {"lables", "labels", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}};
  for (const Case& c : cases) EXPECT_EQ(EditDistance(c.a, c.b), c.distance) << c.a << " " << c.b;
}

TEST(Nearest, FindsWhatWasMeantAndNothingElse) {
  const std::vector<std::string> known = {"--labels", "--label-prefix", "--template", "--top", "--tokens", "-m", "-p"};
  const std::pair<const char*, const char*> cases[] = {{"--lables", "--labels"},
                                                       {"--label", "--labels"},
                                                       {"--tepmlate", "--template"},
                                                       {"--temp", "--template"},
                                                       {"--label_prefix", "--label-prefix"},
                                                       {"--tok", "--top"},
                                                       {"--nothing-like-it", ""},
                                                       {"-x", ""},
                                                       {"--token", "--tokens"},
                                                       {"", ""}};
  for (const auto& [typed, meant] : cases) EXPECT_EQ(Nearest(typed, known), meant) << typed;
  EXPECT_EQ(Nearest(std::string(100000, '-'), known), "");
  EXPECT_EQ(Nearest("run", {}), "");
}

}  // namespace
}  // namespace estream
