// SPDX-License-Identifier: Apache-2.0
// Reading at offsets and writing atomically, with everything that can stand in a path's place.
#include "format/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "base/aligned_buffer.h"
#include "format/atomic_file.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::HasSubstr;

// How many entries a folder has: 0 extra ones mean that no temporary file is left.
size_t EntryCount(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(OpenFile, ReadsAnyRange) {
  TempDir dir;
  WriteBinary(dir.File("f"), "0123456789");
  const auto file = OpenFile(dir.File("f"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->size(), 10u);
  EXPECT_EQ((*file)->name(), dir.File("f"));
  std::string out(4, ' ');
  ASSERT_TRUE((*file)->ReadAt(6, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "6789");
  EXPECT_TRUE((*file)->ReadAt(10, {}).ok());
  EXPECT_TRUE((*file)->ReadAt(UINT64_MAX, {}).ok());
}

TEST(OpenFile, ReadPastTheEndNamesEndCountAndOffset) {
  TempDir dir;
  WriteBinary(dir.File("f"), "0123456789");
  const auto file = OpenFile(dir.File("f"));
  ASSERT_TRUE(file.ok());
  std::string out(4, ' ');
  for (const uint64_t offset : {uint64_t{7}, uint64_t{10}, uint64_t{11}, uint64_t{INT64_MAX} - 2, UINT64_MAX - 1}) {
    const Status status = (*file)->ReadAt(offset, std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_THAT(status.message(),
                HasSubstr("ends at byte 10, 4 bytes were expected at offset " + std::to_string(offset)));
  }
}

TEST(OpenFile, AFileCutAfterOpeningIsAnErrorNotStaleBytes) {
  TempDir dir;
  WriteBinary(dir.File("f"), "0123456789");
  const auto file = OpenFile(dir.File("f"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(dir.File("f").c_str(), 5), 0);
  std::string out(4, ' ');
  const Status status = (*file)->ReadAt(3, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("ends at byte 5, 4 bytes were expected at offset 3"));
}

TEST(OpenFile, WhatIsNoRegularFileIsRefused) {
  TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  const struct {
    std::string path;
    StatusCode code;
    std::string says;
  } kCases[] = {
      {dir.File("absent"), StatusCode::kNotFound, "absent: cannot be opened: No such file or directory"},
      {"", StatusCode::kNotFound, "cannot be opened"},
      {dir.path(), StatusCode::kIo, "is a directory, expected a regular file"},
      {dir.File("pipe"), StatusCode::kIo, "is a pipe or socket, expected a regular file"},
      {"/dev/null", StatusCode::kIo, "/dev/null: is a device, expected a regular file"},
  };
  for (const auto& c : kCases) {
    const auto file = OpenFile(c.path);
    EXPECT_EQ(file.status().code(), c.code) << c.path;
    EXPECT_THAT(file.status().message(), HasSubstr(c.says));
    EXPECT_LT(file.status().message().size(), 300u);
  }
}

TEST(OpenFile, UnreadableFileIsIo) {
  if (geteuid() == 0) GTEST_SKIP() << "everything is readable to root";
  TempDir dir;
  WriteBinary(dir.File("f"), "x");
  ASSERT_EQ(chmod(dir.File("f").c_str(), 0), 0);
  EXPECT_THAT(OpenFile(dir.File("f")).status().message(), HasSubstr("cannot be opened: Permission denied"));
}

// Memory that is not mapped is a read error of an otherwise regular file.
TEST(OpenFile, AReadErrorSaysWhy) {
  const auto file = OpenFile("/proc/self/mem");
  if (!file.ok()) GTEST_SKIP() << file.status().message();
  std::byte out[16];
  const Status status = (*file)->ReadAt(0, out);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_EQ(status.message(), "/proc/self/mem: cannot be read: Input/output error");
}

TEST(OpenFile, AFileIsNotInheritedByChildren) {
  TempDir dir;
  WriteBinary(dir.File("f"), "x");
  const auto file = OpenFile(dir.File("f"));
  ASSERT_TRUE(file.ok());
  int inherited = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != dir.File("f")) continue;
    inherited += (fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) == 0;
  }
  EXPECT_EQ(inherited, 0);
}

TEST(ReadTextFile, TakesFilesUpToTheLimit) {
  TempDir dir;
  WriteBinary(dir.File("f"), std::string(100'000, 'a'));
  for (const uint64_t limit : {uint64_t{100'000}, uint64_t{100'001}, UINT64_MAX}) {
    const auto text = ReadTextFile(dir.File("f"), limit);
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(text->size(), 100'000u);
  }
  const auto text = ReadTextFile(dir.File("f"), 99'999);
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(text.status().message(), HasSubstr("is longer than 99999 bytes"));
  WriteBinary(dir.File("empty"), "");
  EXPECT_EQ(ReadTextFile(dir.File("empty"), 0).value(), "");
}

TEST(ReadTextFile, TakesPipesToTheirEnd) {
  TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  std::thread writer([&] { WriteBinary(dir.File("pipe"), std::string(200'000, 'b')); });
  const auto text = ReadTextFile(dir.File("pipe"), 1 << 20);
  writer.join();
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, std::string(200'000, 'b'));
}

TEST(ReadTextFile, MinusIsStandardInput) {
  TempDir dir;
  WriteBinary(dir.File("f"), "from stdin");
  const int saved = dup(STDIN_FILENO);
  const int fd = open(dir.File("f").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  dup2(fd, STDIN_FILENO);
  close(fd);
  const auto text = ReadTextFile("-", 100);
  dup2(saved, STDIN_FILENO);
  close(saved);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, "from stdin");
}

TEST(ReadTextFile, FoldersAndDevicesAreRefused) {
  TempDir dir;
  EXPECT_THAT(ReadTextFile(dir.path(), 10).status().message(), HasSubstr("is a directory"));
  EXPECT_THAT(ReadTextFile("/dev/zero", 10).status().message(), HasSubstr("is a device"));
  EXPECT_EQ(ReadTextFile(dir.File("absent"), 10).status().code(), StatusCode::kNotFound);
}

TEST(WriteFileAtomically, CreatesAndReplaces) {
  TempDir dir;
  for (const std::string text : {"first", "second, longer", ""}) {
    const Status status = WriteFileAtomically(dir.File("f"), AsBytes(text));
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(ReadBinary(dir.File("f")), text);
  }
  EXPECT_EQ(EntryCount(dir.path()), 1u);
}

TEST(WriteFileAtomically, ReplacesTheTargetOfALinkAndNotTheLink) {
  TempDir dir;
  WriteBinary(dir.File("target"), "old");
  std::filesystem::create_symlink("target", dir.File("link"));
  ASSERT_TRUE(WriteFileAtomically(dir.File("link"), AsBytes("new")).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(dir.File("link")));
  EXPECT_EQ(ReadBinary(dir.File("target")), "new");
}

TEST(WriteFileAtomically, DevicesFoldersAndMissingFoldersAreRefused) {
  TempDir dir;
  const std::string text = "x";
  EXPECT_THAT(WriteFileAtomically("/dev/null", AsBytes(text)).message(), HasSubstr("is not a regular file"));
  EXPECT_THAT(WriteFileAtomically(dir.path(), AsBytes(text)).message(), HasSubstr("is not a regular file"));
  const Status status = WriteFileAtomically(dir.File("no/f"), AsBytes(text));
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(status.message(), HasSubstr("No such file or directory"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

// A limit on file size stands in for a full disk: the write fails half-way.
TEST(WriteFileAtomically, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  TempDir dir;
  WriteBinary(dir.File("f"), "old");
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = old_limit;
  limit.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Status status = WriteFileAtomically(dir.File("f"), AsBytes(std::string(10'000, 'x')));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(status.message(), HasSubstr("cannot be written: File too large"));
  EXPECT_EQ(ReadBinary(dir.File("f")), "old");
  EXPECT_EQ(EntryCount(dir.path()), 1u);
}

TEST(AtomicFile, DroppedBeforeCommitLeavesNothing) {
  TempDir dir;
  {
    const auto file = AtomicFile::Create(dir.File("f"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Write(AsBytes("half")).ok());
    EXPECT_FALSE(std::filesystem::exists(dir.File("f")));
  }
  EXPECT_EQ(EntryCount(dir.path()), 0u);
}

TEST(AtomicFile, HolesAreZerosBetweenWhatIsWritten) {
  TempDir dir;
  const auto file = AtomicFile::Create(dir.File("f"));
  ASSERT_TRUE(file.ok());
  const std::string text = "ab";
  ASSERT_TRUE((*file)->Write(std::as_bytes(std::span(text))).ok());
  ASSERT_TRUE((*file)->WriteHole(3).ok());
  ASSERT_TRUE((*file)->Write(std::as_bytes(std::span(text))).ok());
  ASSERT_TRUE((*file)->WriteHole(1).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(ReadBinary(dir.File("f")), std::string("ab\0\0\0ab\0", 8));
}

TEST(AtomicFile, TwoWritersOfOneNameDoNotMeet) {
  TempDir dir;
  const auto a = AtomicFile::Create(dir.File("f"));
  const auto b = AtomicFile::Create(dir.File("f"));
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE((*a)->Write(AsBytes("aaaa")).ok());
  ASSERT_TRUE((*b)->Write(AsBytes("b")).ok());
  ASSERT_TRUE((*a)->Commit().ok());
  EXPECT_EQ(ReadBinary(dir.File("f")), "aaaa");
  ASSERT_TRUE((*b)->Commit().ok());
  EXPECT_EQ(ReadBinary(dir.File("f")), "b");
}

TEST(AtomicFile, PastThePageCacheTheBytesAreTheSame) {
  TempDir dir;
  auto memory = AlignedBuffer::Allocate(4 * kPageBytes);
  ASSERT_TRUE(memory.ok());
  const std::span<std::byte> bytes = memory->span();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  const auto file = AtomicFile::Create(dir.File("f"));
  ASSERT_TRUE(file.ok());
  (*file)->BypassPageCache();
  // Two whole pages, then a piece that is none, then one at an odd place in the file, then one at an odd place in
  // memory.
  ASSERT_TRUE((*file)->Write(bytes.first(2 * kPageBytes)).ok());
  ASSERT_TRUE((*file)->Write(bytes.subspan(2 * kPageBytes, 5)).ok());
  ASSERT_TRUE((*file)->Write(bytes.first(kPageBytes)).ok());
  ASSERT_TRUE((*file)->Write(bytes.subspan(3, kPageBytes)).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(ReadBinary(dir.File("f")),
            text.substr(0, 2 * kPageBytes + 5) + text.substr(0, kPageBytes) + text.substr(3, kPageBytes));
}

TEST(AtomicFile, AFolderThatVanishedIsAnErrorAtCommit) {
  TempDir dir;
  std::filesystem::create_directory(dir.File("sub"));
  const auto file = AtomicFile::Create(dir.File("sub/f"));
  ASSERT_TRUE(file.ok());
  std::filesystem::remove_all(dir.File("sub"));
  const Status status = (*file)->Commit();
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(status.message(), HasSubstr("cannot be put in place"));
}

}  // namespace
}  // namespace estream
