// SPDX-License-Identifier: Apache-2.0
// Where packs may go.
#include "pack/pack_target.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/test_files.h"

namespace estream {
namespace {

TEST(PackTarget, DefaultNames) {
  EXPECT_EQ(DefaultPackPath("a/model.gguf"), "a/model.estream.gguf");
  EXPECT_EQ(DefaultPackPath("model"), "model.estream.gguf");
  EXPECT_EQ(DefaultPackPath("a.gguf/m-00002-of-00003.gguf"), "a.gguf/m.estream.gguf");
  EXPECT_EQ(DefaultPackPath("m.gguf.bin"), "m.gguf.bin.estream.gguf");
}

TEST(PackTarget, TheSourceIsNeverReplaced) {
  const TempDir dir;
  const std::string source = dir.File("model.gguf");
  WriteBinary(source, "x");
  ASSERT_EQ(link(source.c_str(), dir.File("hard").c_str()), 0);
  ASSERT_EQ(symlink(source.c_str(), dir.File("soft").c_str()), 0);
  ASSERT_EQ(link(source.c_str(), dir.File("out.partial").c_str()), 0);
  for (const char* name : {"model.gguf", "hard", "soft", "out", "./model.gguf"}) {
    const auto target = ResolveTarget(dir.File(name), {source}, /*force=*/true);
    EXPECT_EQ(target.status().code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(PackTarget, AnExistingFileNeedsForce) {
  const TempDir dir;
  WriteBinary(dir.File("old"), "x");
  const auto refused = ResolveTarget(dir.File("old"), {}, false);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("--force"), std::string::npos);
  EXPECT_TRUE(ResolveTarget(dir.File("old"), {}, true).ok());
  EXPECT_EQ(ResolveTarget(dir.File("new"), {}, false).value(), dir.File("new"));
}

TEST(PackTarget, LinksAreFollowed) {
  const TempDir dir;
  WriteBinary(dir.File("real"), "x");
  ASSERT_EQ(symlink(dir.File("real").c_str(), dir.File("link").c_str()), 0);
  const auto target = ResolveTarget(dir.File("link"), {}, true);
  ASSERT_TRUE(target.ok());
  EXPECT_TRUE(target->ends_with("/real")) << *target;
}

TEST(PackTarget, OnlyRegularFilesAreReplaced) {
  const TempDir dir;
  EXPECT_EQ(ResolveTarget(dir.path(), {}, true).status().code(), StatusCode::kIo);
  EXPECT_EQ(ResolveTarget("/dev/null", {}, true).status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace estream
