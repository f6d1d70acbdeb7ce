// SPDX-License-Identifier: Apache-2.0
// What goes into a profile file comes out of it, and what is wrong with one is named.
#include "engine/profile_file.h"

#include <gmock/gmock.h>

namespace estream {
namespace {

using ::testing::HasSubstr;

TuningProfile SomeProfile() {
  TuningProfile p;
  p.name = "m.estream.gguf";
  p.note = "measured by a test";
  p.quick = true;
  p.key = {"Some CPU", "CPU, AVX2, 2 threads", "q8", "254:1", "io_uring", true, "0123456789abcdef"};
  p.model = {4, 3, 2, 64};
  p.times.reads = {{4096, 1, 100}, {8192, 1, 150}, {4096, 2, 120}};
  p.times.classes = {{7, {{1, 10}, {64, 300}}}};
  LengthTimes length;
  length.tokens = 16;
  length.first_ns = 9;
  length.block_ns = 8;
  length.last_ns = 7;
  length.tail_ns = 6;
  length.exec_scale = 1.125;
  length.routes = {{16, 16, 0}, {1, 1, 0}};
  p.times.lengths = {length};
  return p;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ProfileFile, KeepsEverything) {
  const std::vector<TuningProfile> profiles = {SomeProfile(), SomeProfile()};
  const auto read = ParseProfiles(FormatProfiles(profiles), "x.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, profiles);
}

TEST(ProfileFile, NamesWhatIsWrong) {
  const std::string good = FormatProfiles({SomeProfile()});
  struct Case {
    std::string from, to, message;
  };
  for (const Case& c : {
           Case{"{", "[", "x.json: is no JSON"},
           Case{"estream-profile", "other", "is no profile"},
           Case{"\"version\":1", "\"version\":2", "version 2: expected 1"},
           Case{"\"depth\":1", "\"depth\":0", "profiles[0].reads[0].depth: expected a number from 1 to 256"},
           Case{"\"bytes\":8192", "\"bytes\":4096", "profiles[0].reads[1]: expected depths"},
           Case{"\"ns\":100", "\"ns\":1e300", "profiles[0].reads[0].ns: expected a number"},
           Case{"\"ns\":100", "\"ns\":null", "profiles[0].reads[0].ns: expected a number"},
           Case{"[16,16,0]", "[16,16]", "lengths[0].routes[0]: expected an array of 3 to 3"},
           Case{"[[16,16,0],[1,1,0]]", "[[16,16,0]]", "lengths[0].routes: expected an array of 2"},
           Case{"\"direct\":true", "\"direct\":1", "storage.direct: expected true or false"},
           Case{"\"tail_ns\"", "\"tail\"", "profiles[0].lengths[0]: expected \"tail_ns\" in it"},
           Case{"\"exec_scale\":1.125", "\"exec_scale\":0", "exec_scale: expected a number from 0.01"},
           Case{"\"routes\":64", "\"routes\":1", "by_routes[1]: expected routes to ascend"},
       }) {
    const auto read = ParseProfiles(Replaced(good, c.from, c.to), "x.json");
    ASSERT_FALSE(read.ok()) << c.to;
    EXPECT_THAT(read.status().message(), HasSubstr(c.message));
    EXPECT_LT(read.status().message().size(), 300u);
  }
}

TEST(ProfileFile, FindsByKeyAndSaysWhatDiffers) {
  std::vector<TuningProfile> profiles;
  std::string why;
  EXPECT_EQ(FindProfile(profiles, SomeProfile().key, &why), nullptr);
  EXPECT_EQ(why, "");
  AddProfile(SomeProfile(), &profiles);
  EXPECT_EQ(FindProfile(profiles, SomeProfile().key, &why), &profiles[0]);
  ProfileKey other = SomeProfile().key;
  other.device = "CPU, AVX2, 1 thread";
  EXPECT_EQ(FindProfile(profiles, other, &why), nullptr);
  EXPECT_EQ(why, "device was CPU, AVX2, 2 threads, is CPU, AVX2, 1 thread");
}

TEST(ProfileFile, OneProfileAKeyAndNotTooMany) {
  std::vector<TuningProfile> profiles;
  for (int i = 0; i < 40; ++i) {
    TuningProfile p = SomeProfile();
    p.key.pack = std::to_string(i / 2);
    AddProfile(p, &profiles);
  }
  EXPECT_EQ(profiles.size(), 16u);
  EXPECT_EQ(profiles.back().key.pack, "19");
  EXPECT_EQ(profiles.front().key.pack, "4");
}

TEST(ProfileFile, StandsBesideThePack) {
  EXPECT_EQ(ProfilePathOf("a/m.estream.gguf"), "a/m.profile.json");
  EXPECT_EQ(ProfilePathOf("m.gguf"), "m.profile.json");
  EXPECT_EQ(ProfilePathOf("a/b"), "a/b.profile.json");
  EXPECT_EQ(ProfilePathOf("a/.gguf"), "a/.gguf.profile.json");
}

}  // namespace
}  // namespace estream
