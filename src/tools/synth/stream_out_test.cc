// SPDX-License-Identifier: Apache-2.0
// Streaming writes every byte once, in order, and stops at the first error.
#include "tools/synth/stream_out.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/memory_file.h"

namespace estream {
namespace {

std::string Pattern(uint64_t bytes) {
  std::string text(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + (i >> 13));
  return text;
}

TEST(StreamOut, WritesEveryByteInOrderForAnySize) {
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, kPieceBytes - 1, kPieceBytes, kPieceBytes + 1, 3 * kPieceBytes + 12345}) {
    for (const uint32_t threads : {1u, 3u}) {
      const std::string content = Pattern(bytes);
      const MemoryFile file(content);
      ThreadPool pool(threads);
      std::string written;
      uint64_t reported = 0;
      const Status status = StreamOut(
          file, &pool,
          [&](std::span<const std::byte> piece) {
            written.append(reinterpret_cast<const char*>(piece.data()), piece.size());
            return Status::Ok();
          },
          [&](uint64_t done) { reported = done; });
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(written == content) << bytes << " bytes on " << threads << " threads";
      EXPECT_EQ(reported, bytes);
    }
  }
}

TEST(StreamOut, AFullDiskEndsIt) {
  const MemoryFile file(Pattern(3 * kPieceBytes));
  ThreadPool pool(2);
  int pieces = 0;
  const Status status = StreamOut(
      file, &pool, [&](std::span<const std::byte>) { return ++pieces == 2 ? Status::Io("full") : Status::Ok(); },
      [](uint64_t) {});
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(pieces, 2);
}

TEST(StreamOut, AFailedReadEndsIt) {
  const auto content = std::make_shared<MemoryFile>(Pattern(2 * kPieceBytes));
  const FaultyFile file(content, 40);  // in the second piece
  ThreadPool pool(2);
  uint64_t written = 0;
  const Status status = StreamOut(
      file, &pool,
      [&](std::span<const std::byte> piece) {
        written += piece.size();
        return Status::Ok();
      },
      [](uint64_t) {});
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_LE(written, kPieceBytes);
}

}  // namespace
}  // namespace estream
