// SPDX-License-Identifier: Apache-2.0
// Direct reads give the bytes of the file at any offset, length and address, and notice its end.
#include "pack/direct_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/aligned_buffer.h"
#include "tests/random.h"
#include "tests/test_files.h"

namespace estream {
namespace {

std::string RandomText(uint64_t bytes, Random& random) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random.Bits());
  return text;
}

// Reads through a buffer whose address is `shift` behind a page's beginning.
void ExpectReads(const DirectFile& file, const std::string& text, uint64_t offset, uint64_t bytes, uint64_t shift) {
  SCOPED_TRACE(::testing::Message() << bytes << " bytes at " << offset << ", address + " << shift);
  AlignedBuffer buffer = AlignedBuffer::Allocate(bytes + shift + kPageBytes).value();
  std::memset(buffer.data(), 0x5A, buffer.bytes());
  const Status status = file.ReadAt(offset, {buffer.data() + shift, bytes});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(std::memcmp(buffer.data() + shift, text.data() + offset, bytes), 0);
  for (uint64_t i = 0; i < shift; ++i) ASSERT_EQ(buffer.data()[i], std::byte{0x5A}) << "written before";
  for (uint64_t i = 0; i < kPageBytes; ++i) ASSERT_EQ(buffer.data()[shift + bytes + i], std::byte{0x5A}) << "behind";
}

TEST(DirectFile, ReadsAnyRangeToAnyAddress) {
  Random random(std::random_device{}());
  SCOPED_TRACE(random.seed());
  const TempDir dir;
  const std::string text = RandomText(1'000'003, random);
  WriteBinary(dir.File("f"), text);
  const auto file = DirectFile::Open(dir.File("f"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->size(), text.size());
  const uint64_t edges[] = {0, 1, 31, 4095, 4096, 4097, 8191, 8192, 12288, 600'000};
  for (const uint64_t offset : edges) {
    for (const uint64_t bytes : edges) {
      if (offset + bytes > text.size()) continue;
      for (const uint64_t shift : {uint64_t{0}, offset % kPageBytes, uint64_t{64}}) {
        ExpectReads(**file, text, offset, bytes, shift);
      }
    }
  }
  for (int i = 0; i < 200; ++i) {
    const uint64_t offset = random.Below(static_cast<uint32_t>(text.size()));
    const uint64_t bytes = random.Below(static_cast<uint32_t>(text.size() - offset + 1));
    ExpectReads(**file, text, offset, bytes, random.Below(2) ? offset % kPageBytes : random.Below(4096));
  }
  ExpectReads(**file, text, text.size() - 5000, 5000, (text.size() - 5000) % kPageBytes);
}

TEST(DirectFile, ReadsPastTheEndAreErrors) {
  const TempDir dir;
  WriteBinary(dir.File("f"), std::string(5000, 'x'));
  const auto file = DirectFile::Open(dir.File("f"));
  ASSERT_TRUE(file.ok());
  std::byte out[8];
  for (const uint64_t offset : {uint64_t{4993}, uint64_t{5000}, uint64_t{1} << 40, ~uint64_t{0}}) {
    const Status status = (*file)->ReadAt(offset, out);
    EXPECT_EQ(status.code(), StatusCode::kCorrupt) << offset;
    EXPECT_LT(status.message().size(), 300u);
  }
  EXPECT_TRUE((*file)->ReadAt(5000, {out, 0}).ok());
}

TEST(DirectFile, ACutFileIsNoticed) {
  const TempDir dir;
  WriteBinary(dir.File("f"), std::string(20000, 'x'));
  const auto file = DirectFile::Open(dir.File("f"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(dir.File("f").c_str(), 9000), 0);
  std::vector<std::byte> out(20000);
  const Status status = (*file)->ReadAt(0, out);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_NE(status.message().find("9000"), std::string::npos) << status.message();
}

TEST(DirectFile, WhatIsNoFileIsRefused) {
  const TempDir dir;
  EXPECT_EQ(DirectFile::Open(dir.File("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(DirectFile::Open(dir.path()).status().code(), StatusCode::kIo);
  EXPECT_EQ(DirectFile::Open("/dev/null").status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace estream
