// SPDX-License-Identifier: Apache-2.0
// Split sets: any file of the set opens all of it, and what is wrong with a set is said by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "format/gguf.h"
#include "tests/gguf_builder.h"
#include "tests/memory_file.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::HasSubstr;
using Type = GgufValueType;

struct Shard {
  uint16_t no = 0;
  uint16_t count = 3;
  int32_t tensors = 3;  // of the whole set
  std::string tensor;
};

std::string Build(const Shard& s) {
  GgufBuilder b;
  b.Number("split.no", Type::kU16, s.no).Number("split.count", Type::kU16, s.count);
  b.Number("split.tensors.count", Type::kI32, s.tensors);
  if (s.no == 0) b.String("general.architecture", "test");
  return b.Tensor(s.tensor, {4}, 24, s.tensor.substr(0, 4)).Build();
}

std::string Name(int number, int count = 3) {
  return "m-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) + ".gguf";
}

// A sound set of three in `dir`.
void WriteSet(const TempDir& dir) {
  WriteBinary(dir.File(Name(1)), Build({.no = 0, .tensor = "aaaa"}));
  WriteBinary(dir.File(Name(2)), Build({.no = 1, .tensor = "bbbb"}));
  WriteBinary(dir.File(Name(3)), Build({.no = 2, .tensor = "cccc"}));
}

std::string Error(const std::string& path) {
  const auto gguf = Gguf::Open(path);
  EXPECT_FALSE(gguf.ok()) << "opened";
  EXPECT_LT(gguf.status().message().size(), 300u);
  return gguf.status().message();
}

TEST(GgufSplit, AnyShardOpensTheSet) {
  TempDir dir;
  WriteSet(dir);
  for (int given = 1; given <= 3; ++given) {
    const auto gguf = Gguf::Open(dir.File(Name(given)));
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    EXPECT_EQ(gguf->shard_count(), 3u);
    EXPECT_EQ(gguf->path(), dir.File(Name(1)));
    EXPECT_EQ(gguf->String("general.architecture").value(), "test");
    ASSERT_EQ(gguf->tensors().size(), 3u);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 3; ++i) {
      const GgufTensor& tensor = gguf->tensors()[i];
      EXPECT_EQ(tensor.shard, i);
      EXPECT_EQ(gguf->FindTensor(tensor.name), &tensor);
      std::string out(4, ' ');
      ASSERT_TRUE(gguf->ReadTensor(tensor, 0, std::as_writable_bytes(std::span(out))).ok());
      EXPECT_EQ(out, tensor.name);
      EXPECT_EQ(gguf->shard(i).name(), dir.File(Name(static_cast<int>(i) + 1)));
      bytes += gguf->shard(i).size();
    }
    EXPECT_EQ(gguf->file_bytes(), bytes);
  }
}

TEST(GgufSplit, StoredSetEqualsTheWholeModel) {
  const auto whole = Gguf::Open(TestData("models/olmoe-m-q4_0.gguf"));
  ASSERT_TRUE(whole.ok());
  for (const char* shard : {"olmoe-m-q4_0-00001-of-00002.gguf", "olmoe-m-q4_0-00002-of-00002.gguf"}) {
    const auto split = Gguf::Open(TestData(std::string("layouts/") + shard));
    ASSERT_TRUE(split.ok()) << split.status().message();
    ASSERT_EQ(split->tensors().size(), whole->tensors().size());
    for (const GgufTensor& tensor : whole->tensors()) {
      const GgufTensor* other = split->FindTensor(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      std::vector<std::byte> ours(tensor.bytes), theirs(other->bytes);
      ASSERT_TRUE(whole->ReadTensor(tensor, 0, ours).ok());
      ASSERT_TRUE(split->ReadTensor(*other, 0, theirs).ok());
      EXPECT_EQ(ours, theirs) << tensor.name;
    }
    for (const auto& [key, value] : whole->metadata()) EXPECT_NE(split->Find(key), nullptr) << key;
  }
}

TEST(GgufSplit, MissingShardsAreNamed) {
  TempDir dir;
  WriteSet(dir);
  std::filesystem::remove(dir.File(Name(1)));
  EXPECT_THAT(Error(dir.File(Name(2))),
              HasSubstr(Name(2) + ": is one of 3 shards, and " + Name(1) + " is missing beside it"));
  EXPECT_EQ(Gguf::Open(dir.File(Name(2))).status().code(), StatusCode::kNotFound);
  std::filesystem::remove(dir.File(Name(3)));
  EXPECT_THAT(Error(dir.File(Name(2))), HasSubstr(Name(1) + " and 1 more are missing beside it"));
}

TEST(GgufSplit, ARenamedShardSaysWhatItsNameMustEndIn) {
  TempDir dir;
  WriteSet(dir);
  const std::string says = "is shard 2 of 3 by its metadata, so its name must end in -00002-of-00003.gguf";
  for (const std::string& name : {std::string("model.gguf"), Name(1), Name(2, 4), Name(2, 2)}) {
    TempDir other;
    std::filesystem::copy(dir.File(Name(2)), other.File(name));
    EXPECT_THAT(Error(other.File(name)), HasSubstr(says)) << name;
  }
}

// Shards of some formats are parts of one file, to be joined with cat; those of GGUF are files of their own.
TEST(GgufSplit, ShardsPutTogetherWithCatAreRefused) {
  TempDir dir;
  WriteSet(dir);
  WriteBinary(dir.File("whole.gguf"), ReadBinary(dir.File(Name(1))) + ReadBinary(dir.File(Name(2))));
  EXPECT_THAT(Error(dir.File("whole.gguf")), HasSubstr("whole.gguf: is shard 1 of 3 by its metadata"));
}

TEST(GgufSplit, ShardsThatDoNotBelongTogetherAreRefused) {
  const struct {
    std::string second;
    std::string says;
  } kCases[] = {
      {Build({.no = 2, .tensor = "bbbb"}), Name(2) + ": key \"split.no\" is 2, expected the unsigned integer 1"},
      {Build({.no = 1, .count = 4, .tensor = "bbbb"}), Name(2) + ": key \"split.count\" is 4, expected the unsigned"},
      {Build({.no = 1, .tensor = "aaaa"}), Name(2) + ": tensor \"aaaa\" is also in another shard"},
      {GgufBuilder().Tensor("bbbb", {4}, 24, "bbbb").Build(), Name(2) + ": key \"split.count\" is missing"},
      {"GGUF", Name(2) + ": the header needs 4 bytes"},
  };
  for (const auto& c : kCases) {
    TempDir dir;
    WriteSet(dir);
    WriteBinary(dir.File(Name(2)), c.second);
    EXPECT_THAT(Error(dir.File(Name(1))), HasSubstr(c.says));
  }
}

TEST(GgufSplit, TheTotalOfTensorsMustBeWhatTheFirstShardSays) {
  TempDir dir;
  WriteSet(dir);
  WriteBinary(dir.File(Name(1)), Build({.no = 0, .tensors = 4, .tensor = "aaaa"}));
  EXPECT_THAT(Error(dir.File(Name(3))), HasSubstr("the set says it has 4 tensors, its 3 shards hold 3"));
}

TEST(GgufSplit, ACountOfOneIsAWholeFileUnderAnyName) {
  TempDir dir;
  WriteBinary(dir.File("any.gguf"), Build({.no = 0, .count = 1, .tensors = 1, .tensor = "aaaa"}));
  EXPECT_TRUE(Gguf::Open(dir.File("any.gguf")).ok());
  WriteBinary(dir.File("none.gguf"), Build({.no = 0, .count = 0, .tensors = 1, .tensor = "aaaa"}));
  EXPECT_TRUE(Gguf::Open(dir.File("none.gguf")).ok());
}

TEST(GgufSplit, HostileCountsAreErrors) {
  TempDir dir;
  GgufBuilder huge;
  huge.Number("split.no", Type::kU64, uint64_t{0}).Number("split.count", Type::kU64, uint64_t{1} << 40);
  WriteBinary(dir.File("m-00001-of-99999.gguf"), huge.Build());
  EXPECT_THAT(Error(dir.File("m-00001-of-99999.gguf")), HasSubstr("is 1099511627776, expected an unsigned integer"));
  GgufBuilder many;
  many.Number("split.no", Type::kU16, uint16_t{0}).Number("split.count", Type::kU16, uint16_t{65535});
  WriteBinary(dir.File("m-00001-of-65535.gguf"), many.Build());
  EXPECT_THAT(Error(dir.File("m-00001-of-65535.gguf")),
              HasSubstr("m-00002-of-65535.gguf and 65533 more are missing beside it"));
}

TEST(GgufSplit, AnOpenFileAloneIsRefused) {
  const auto gguf = Gguf::Open(std::make_shared<MemoryFile>(Build({.no = 0, .tensor = "aaaa"})));
  EXPECT_EQ(gguf.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(gguf.status().message(), HasSubstr("is one of 3 shards, open the set by its path"));
}

}  // namespace
}  // namespace estream
