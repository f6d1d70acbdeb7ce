// SPDX-License-Identifier: Apache-2.0
// Every outcome of an attempt to read, and the files it comes from.
#include "residency/read_progress.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/aligned_buffer.h"
#include "residency/testing/faulty_file.h"
#include "residency/testing/pattern.h"

namespace estream {
namespace {

using testing::FaultyFile;
using testing::HasPattern;
using testing::PatternBytes;
using Step = ReadProgress::Step;

constexpr uint64_t kMiB = 1 << 20;

class ReadProgressTest : public ::testing::Test {
 protected:
  // Reads all of [offset, offset + bytes).
  Status Read(FaultyFile& file, uint64_t offset, uint64_t bytes) {
    memory_ = AlignedBuffer::Allocate(bytes).value();
    ReadProgress progress(file, offset, memory_.span());
    Step step = Step::kAgain;
    while (step == Step::kAgain) step = progress.Take(file.ReadSome(progress.position(), progress.next()));
    EXPECT_EQ(step == Step::kDone, progress.status().ok());
    return progress.status();
  }
  bool Arrived(uint64_t offset) const { return HasPattern(memory_.span(), offset); }

  AlignedBuffer memory_;
};

TEST_F(ReadProgressTest, OneAttemptSufficesWhenNothingIsWrong) {
  FaultyFile file(PatternBytes(8 * kMiB));
  ASSERT_TRUE(Read(file, kMiB, 5 * kMiB).ok());
  EXPECT_TRUE(Arrived(kMiB));
  EXPECT_EQ(file.attempts(), 1u);
  EXPECT_EQ(file.dropped_bytes(), 0u);
}

TEST_F(ReadProgressTest, ShortReadsGoOnWhereTheyStopped) {
  for (const uint64_t most : {kPageBytes, kPageBytes + 512, 3 * kPageBytes, 3 * kPageBytes + 1}) {
    FaultyFile file(PatternBytes(kMiB));
    file.ReadAtMost(most);
    ASSERT_TRUE(Read(file, kPageBytes, 20 * kPageBytes).ok()) << most;
    EXPECT_TRUE(Arrived(kPageBytes)) << most;
  }
}

TEST_F(ReadProgressTest, InterruptedReadsAreRepeated) {
  FaultyFile file(PatternBytes(kMiB));
  file.ReadAtMost(kPageBytes);
  file.FailAt(0, EINTR);
  file.FailAt(1, EAGAIN);
  file.FailAt(3, EINTR);
  ASSERT_TRUE(Read(file, 0, 4 * kPageBytes).ok());
  EXPECT_TRUE(Arrived(0));
  EXPECT_EQ(file.attempts(), 7u);
}

TEST_F(ReadProgressTest, ReadsThatAreInterruptedForeverFail) {
  FaultyFile file(PatternBytes(kMiB));
  for (uint64_t attempt = 0; attempt < 5000; ++attempt) file.FailAt(attempt, EAGAIN);
  const Status status = Read(file, 0, kPageBytes);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("gave up after"), std::string::npos) << status.message();
}

TEST_F(ReadProgressTest, ErrorNamesFilePlaceAndReason) {
  FaultyFile file(PatternBytes(kMiB));
  file.FailAt(0, EIO);
  const Status status = Read(file, 8192, 4096);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_EQ(status.message(), "faulty.gguf: reading 4096 bytes at offset 8192: Input/output error");
}

TEST_F(ReadProgressTest, EarlyEndIsAnErrorThatSaysWhereWhateverTheEnd) {
  for (const bool buffered : {false, true}) {
    for (const uint64_t end : {0, 1, 4095, 4096, 4097, 8191, 8192, 10000, 12287}) {
      FaultyFile file(PatternBytes(12288));
      file.Truncate(end);
      if (buffered) file.GoBuffered(EINVAL);
      const Status status = Read(file, 4096, 8192);
      EXPECT_EQ(status.code(), StatusCode::kCorrupt);
      EXPECT_EQ(status.message(),
                "faulty.gguf: ends at byte " + std::to_string(end) + ", 8192 bytes were expected at offset 4096");
    }
  }
}

TEST_F(ReadProgressTest, DirectReadThatStaysShortInsideTheFileIsABadSector) {
  FaultyFile file(PatternBytes(kMiB));
  file.ReadAtMost(512);
  const Status status = Read(file, 0, kPageBytes);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("Input/output error"), std::string::npos) << status.message();
}

TEST_F(ReadProgressTest, FileThatRefusesDirectReadsIsReadBufferedInChunksThatAreDropped) {
  FaultyFile file(PatternBytes(8 * kMiB));
  file.RefuseDirect();
  ASSERT_TRUE(Read(file, kPageBytes, 5 * kMiB + kPageBytes).ok());
  EXPECT_TRUE(Arrived(kPageBytes));
  EXPECT_FALSE(file.direct());
  EXPECT_EQ(file.attempts(), 7u);  // the refused one, five of 1 MiB, the rest
  EXPECT_EQ(file.dropped_bytes(), 5 * kMiB + kPageBytes);
}

TEST_F(ReadProgressTest, InvalidArgumentFromABufferedFileIsAnError) {
  FaultyFile file(PatternBytes(kMiB));
  file.GoBuffered(EINVAL);
  file.FailAt(0, EINVAL);
  EXPECT_EQ(Read(file, 0, kPageBytes).code(), StatusCode::kIo);
}

TEST(RecordFile, OpensDirectOrSaysWhyNot) {
  const testing::PatternFile disk(ES_BINARY_DIR, 3 * kPageBytes);
  const auto file = OpenRecordFile(disk.path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_NE((*file)->direct(), !(*file)->buffered_reason().empty());
  EXPECT_EQ((*file)->size_now(), 3 * kPageBytes);
  const auto asked = OpenRecordFile(disk.path(), false);
  ASSERT_TRUE(asked.ok());
  EXPECT_FALSE((*asked)->direct());
  EXPECT_EQ((*asked)->buffered_reason(), "as asked");
}

TEST(RecordFile, FileSystemWithoutDirectReadsIsReadBuffered) {
  // proc has no O_DIRECT on any kernel.
  const auto file = OpenRecordFile("/proc/self/status");
  if (!file.ok()) GTEST_SKIP() << file.status().message();
  EXPECT_FALSE((*file)->direct());
  EXPECT_EQ((*file)->buffered_reason(), "direct reads refused: Invalid argument");
  std::vector<std::byte> bytes(100);
  EXPECT_GT((*file)->ReadSome(0, bytes), 0);
}

TEST(RecordFile, GoingBufferedLiftsTheAlignmentOfDirectReads) {
  const testing::PatternFile disk(ES_BINARY_DIR, 3 * kPageBytes);
  const auto file = OpenRecordFile(disk.path());
  ASSERT_TRUE(file.ok());
  (*file)->GoBuffered(EINVAL);
  (*file)->GoBuffered(EINVAL);  // twice, as two reads in flight may
  EXPECT_FALSE((*file)->direct());
  std::vector<std::byte> bytes(24);
  EXPECT_EQ((*file)->ReadSome(8, bytes), 24);
  EXPECT_TRUE(HasPattern(bytes, 8));
}

TEST(RecordFile, WhatIsNoRegularFileIsRefusedByName) {
  struct Case {
    std::string path;
    StatusCode code;
  };
  const Case cases[] = {{std::string(ES_BINARY_DIR) + "/no-such-file", StatusCode::kNotFound},
                        {ES_BINARY_DIR, StatusCode::kIo},
                        {"/dev/null", StatusCode::kIo}};
  for (const Case& c : cases) {
    for (const bool direct : {true, false}) {
      const Status status = OpenRecordFile(c.path, direct).status();
      EXPECT_EQ(status.code(), c.code) << status.message();
      EXPECT_NE(status.message().find(c.path.substr(c.path.rfind('/'))), std::string::npos) << status.message();
    }
  }
}

}  // namespace
}  // namespace estream
