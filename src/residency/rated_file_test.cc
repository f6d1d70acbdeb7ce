// SPDX-License-Identifier: Apache-2.0
// Bytes pass one after the other at the rate, whatever the reads are cut into.
#include "residency/rated_file.h"

#include <gtest/gtest.h>

#include <vector>

#include "residency/testing/faulty_file.h"

namespace estream {
namespace {

class RatedFileTest : public ::testing::Test {
 protected:
  // 1,000 bytes a second: a millisecond each.
  RatedFileTest()
      : content_(std::make_shared<testing::FaultyFile>(std::vector<std::byte>(4096, std::byte{7}))),
        file_(MakeRatedFile(content_, 1000,
                            {[this] { return now_; }, [this](uint64_t until) { now_ = std::max(now_, until); }})) {}

  int64_t Read(uint64_t offset, size_t bytes) {
    out_.assign(bytes, std::byte{0});
    return file_->ReadSome(offset, out_);
  }

  uint64_t now_ = 5'000'000;
  std::vector<std::byte> out_;
  std::shared_ptr<testing::FaultyFile> content_;
  std::shared_ptr<RecordFile> file_;
};

TEST_F(RatedFileTest, AReadEndsWhenItsBytesHavePassed) {
  EXPECT_EQ(Read(0, 10), 10);
  EXPECT_EQ(out_, std::vector<std::byte>(10, std::byte{7}));
  EXPECT_EQ(now_, 15'000'000u);
  EXPECT_EQ(Read(10, 5), 5);
  EXPECT_EQ(now_, 20'000'000u);
}

TEST_F(RatedFileTest, IdleTimeIsNotSavedUp) {
  Read(0, 10);
  now_ = 100'000'000;
  Read(0, 10);
  EXPECT_EQ(now_, 110'000'000u);
}

TEST_F(RatedFileTest, ErrorsAndTheEndComeAtOnce) {
  content_->FailAt(0, EIO);
  EXPECT_EQ(Read(0, 10), -EIO);
  EXPECT_EQ(Read(4096, 10), 0);
  EXPECT_EQ(now_, 5'000'000u);
}

TEST_F(RatedFileTest, IsTheFileBehindIt) {
  EXPECT_EQ(file_->descriptor(), -1) << "the kernel would not wait";
  EXPECT_EQ(file_->size_now(), content_->size_now());
  EXPECT_EQ(file_->name(), content_->name());
  EXPECT_EQ(file_->direct(), content_->direct());
}

}  // namespace
}  // namespace estream
