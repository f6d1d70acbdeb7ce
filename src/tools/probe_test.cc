// SPDX-License-Identifier: Apache-2.0
// Probes answer for folders, files and places that do not exist, and leave nothing behind.
#include "tools/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/test_files.h"

namespace estream {
namespace {

TEST(Probe, AFolderAnswersAndIsLeftAsItWas) {
  TempDir dir;
  const auto reads = ProbeReadsIn(dir.path());
  ASSERT_TRUE(reads.ok()) << reads.status().message();
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_THAT(reads->mode.engine, testing::AnyOf("io_uring", "threads"));
  if (reads->mode.direct) {
    EXPECT_THAT(reads->alignment, testing::AnyOf(512u, 4096u));
  } else {
    EXPECT_NE(reads->mode.direct_reason, "");
  }
}

TEST(Probe, AFileAnswersAsItsFolderDoes) {
  TempDir dir;
  WriteBinary(dir.File("f"), std::string(20000, 'x'));
  const auto reads = ProbeReads(dir.File("f"));
  ASSERT_TRUE(reads.ok()) << reads.status().message();
  EXPECT_EQ(reads->mode.direct, ProbeReadsIn(dir.path())->mode.direct);
}

TEST(Probe, WhatIsNotThereIsNamed) {
  for (const Status& status : {ProbeReadsIn("/no/such/folder").status(), ProbeReads("/no/such/folder").status(),
                               ProbeFileSystem("/no/such/folder").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(status.message(), testing::HasSubstr("/no/such/folder"));
  }
}

TEST(Probe, AFolderThatTakesNoFilesIsNamed) {
  const auto reads = ProbeReadsIn("/proc");  // not even the superuser can make a file there
  EXPECT_EQ(reads.status().code(), StatusCode::kIo);
  EXPECT_EQ(reads.status().message(), "/proc: no file can be made there");
}

TEST(Probe, TheFileSystemHasANameAndRoom) {
  TempDir dir;
  const auto facts = ProbeFileSystem(dir.path());
  ASSERT_TRUE(facts.ok());
  EXPECT_NE(facts->type, "");
  EXPECT_GT(facts->free_bytes, 0u);
}

}  // namespace
}  // namespace estream
