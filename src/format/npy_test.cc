// SPDX-License-Identifier: Apache-2.0
// What NumPy would read back, and that nothing half-written is left.
#include "format/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::HasSubstr;

float ValueAt(uint64_t row, uint64_t col) { return static_cast<float>(row) * 1000.0f - static_cast<float>(col); }

std::vector<float> Row(uint64_t row, uint64_t cols) {
  std::vector<float> values(cols);
  for (uint64_t c = 0; c < cols; ++c) values[c] = ValueAt(row, c);
  return values;
}

// Checks magic, version and dictionary of a file, and returns its data.
std::string CheckedData(const std::string& file, const std::string& shape) {
  EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const size_t length = static_cast<uint8_t>(file[8]) + 256 * static_cast<uint8_t>(file[9]);
  EXPECT_EQ((10 + length) % 64, 0u);
  const std::string dictionary = file.substr(10, length);
  EXPECT_THAT(dictionary, HasSubstr("'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }"));
  EXPECT_EQ(dictionary.back(), '\n');
  return file.substr(10 + length);
}

TEST(NpyWriter, WritesWhatNumPyReads) {
  const struct {
    uint64_t rows, cols;
    const char* shape;
  } kCases[] = {{0, 0, "(0, 0)"},     {0, 5, "(0, 5)"},           {3, 0, "(3, 0)"},         {1, 1, "(1, 1)"},
                {7, 509, "(7, 509)"}, {33, 16383, "(33, 16383)"}, {2, 16384, "(2, 16384)"}, {3, 50'000, "(3, 50000)"}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.shape);
    TempDir dir;
    const auto writer = NpyWriter::Create(dir.File("a.npy"), c.rows, c.cols);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (uint64_t r = 0; r < c.rows; ++r) ASSERT_TRUE((*writer)->Append(Row(r, c.cols)).ok());
    EXPECT_FALSE(std::filesystem::exists(dir.File("a.npy")));
    const Status status = (*writer)->Finish();
    ASSERT_TRUE(status.ok()) << status.message();
    const std::string data = CheckedData(ReadBinary(dir.File("a.npy")), c.shape);
    ASSERT_EQ(data.size(), c.rows * c.cols * 4);
    for (uint64_t r = 0; r < c.rows; ++r) {
      const auto row = std::as_bytes(std::span(data).subspan(r * c.cols * 4, c.cols * 4));
      const std::vector<float> expected = Row(r, c.cols);
      ASSERT_TRUE(std::ranges::equal(row, std::as_bytes(std::span(expected)))) << r;
    }
  }
}

TEST(NpyWriter, UnfinishedLeavesNothing) {
  TempDir dir;
  {
    const auto writer = NpyWriter::Create(dir.File("a.npy"), 2, 3);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(Row(0, 3)).ok());
    const Status status = (*writer)->Finish();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("a.npy: has 1 rows, expected 2"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(NpyWriter, WrongRowsAreRefusedAndDoNoHarm) {
  TempDir dir;
  const auto writer = NpyWriter::Create(dir.File("a.npy"), 1, 3);
  ASSERT_TRUE(writer.ok());
  EXPECT_THAT((*writer)->Append(Row(0, 2)).message(), HasSubstr("row 0 has 2 values, expected 3"));
  ASSERT_TRUE((*writer)->Append(Row(0, 3)).ok());
  EXPECT_THAT((*writer)->Append(Row(1, 3)).message(), HasSubstr("has all its 1 rows already"));
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ((*writer)->Finish().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckedData(ReadBinary(dir.File("a.npy")), "(1, 3)").size(), 12u);
}

TEST(NpyWriter, ImpossibleSizesAndPlacesAreRefused) {
  TempDir dir;
  for (const auto& [rows, cols] :
       {std::pair<uint64_t, uint64_t>{UINT64_MAX, 2}, {uint64_t{1} << 61, 1}, {1, UINT64_MAX}}) {
    const auto writer = NpyWriter::Create(dir.File("a.npy"), rows, cols);
    EXPECT_EQ(writer.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(writer.status().message(), HasSubstr("is too large for a file"));
  }
  EXPECT_EQ(NpyWriter::Create(dir.File("no/a.npy"), 1, 1).status().code(), StatusCode::kIo);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace estream
