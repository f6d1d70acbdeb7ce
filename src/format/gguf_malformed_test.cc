// SPDX-License-Identifier: Apache-2.0
// The stored damaged files, and damage made here: what the container alone shows must be refused at open, in one
// sentence, without a large allocation; everything else opens and can be read end to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "format/gguf.h"
#include "tests/allocation_probe.h"
#include "tests/gguf_builder.h"
#include "tests/gguf_walk.h"
#include "tests/malformed_cases.h"
#include "tests/memory_file.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::HasSubstr;

// What no file of a few KiB may make the reader allocate in one piece.
constexpr size_t kMaxAllocation = 1 << 20;

// Sound containers whose contents make no model: refused by the family or the tokenizer, not here. All cases of bases
// other than OLMoE are such.
const std::set<std::string>& JudgedByTheModel() {
  static const std::set<std::string> names = {
      "n-tensors-zero",
      "type-i32",
      "arch-missing",
      "arch-unknown",
      "arch-wrong-type",
      "arch-other",
      "missing-embedding-length",
      "missing-block-count",
      "missing-layer-norm-rms-epsilon",
      "missing-expert-used-count",
      "missing-expert-count",
      "missing-head-count",
      "block-count-3",
      "block-count-0",
      "block-count-2g",
      "block-count-string",
      "block-count-float",
      "block-count-negative",
      "block-count-array",
      "embedding-length-64",
      "embedding-length-0",
      "head-count-0",
      "head-count-3",
      "head-count-32",
      "head-kv-exceeds",
      "head-kv-0",
      "experts-8-of-4",
      "experts-3-of-4",
      "experts-0",
      "experts-max",
      "used-exceeds",
      "used-0",
      "ff-wrong",
      "eps-negative",
      "eps-nan",
      "rope-base-0",
      "rope-base-nan",
      "no-token-embd",
      "no-output-norm",
      "no-output",
      "no-blk-0-ffn-gate-inp",
      "no-blk-1-ffn-down-exps",
      "no-blk-1-attn-k-norm",
      "experts-2d",
      "norm-too-long",
      "router-transposed",
      "embedding-one-row-less",
      "vocab-one-token-less",
      "vocab-one-token-more",
      "vocab-empty",
      "vocab-missing",
      "vocab-wrong-type",
      "vocab-type-count",
      "merges-missing",
      "merges-numbers",
      "tokenizer-unknown",
  };
  return names;
}

TEST(GgufMalformed, EveryStoredCaseIsJudged) {
  TempDir dir;
  size_t seen = 0;
  for (const MalformedCase& c : MalformedCases()) {
    SCOPED_TRACE(c.name + ": " + c.what);
    const std::string path = MakeMalformed(c, dir);
    ResetLargestAllocation();
    const auto gguf = Gguf::Open(path);
    EXPECT_LT(LargestAllocation(), kMaxAllocation);
    ++seen;
    if (gguf.ok()) {
      const bool by_model = JudgedByTheModel().count(c.name) != 0 || !c.base.starts_with("olmoe");
      EXPECT_TRUE(c.expectation != "reject" || by_model) << "opened";
      EXPECT_NE(WalkGguf(*gguf), 0u);
      continue;
    }
    const std::string message = gguf.status().message();
    EXPECT_NE(c.expectation, "accept") << message;
    EXPECT_EQ(JudgedByTheModel().count(c.name), 0u) << message;
    EXPECT_THAT(message, HasSubstr(c.name + ".gguf: "));
    EXPECT_LT(message.size(), 300u);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_GT(seen, 140u);
}

TEST(GgufMalformed, AcceptedVariantsHoldTheSameTensorsAsTheirBase) {
  TempDir dir;
  for (const MalformedCase& c : MalformedCases()) {
    if (c.expectation != "accept") continue;
    SCOPED_TRACE(c.name);
    const auto variant = Gguf::Open(MakeMalformed(c, dir));
    const auto base = Gguf::Open(TestData("models/" + c.base + ".gguf"));
    ASSERT_TRUE(variant.ok() && base.ok()) << variant.status().message();
    ASSERT_EQ(variant->tensors().size(), base->tensors().size());
    for (const GgufTensor& tensor : base->tensors()) {
      const GgufTensor* other = variant->FindTensor(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      ASSERT_EQ(other->bytes, tensor.bytes);
      std::vector<std::byte> ours(tensor.bytes), theirs(tensor.bytes);
      ASSERT_TRUE(base->ReadTensor(tensor, 0, ours).ok());
      ASSERT_TRUE(variant->ReadTensor(*other, 0, theirs).ok());
      EXPECT_EQ(ours, theirs) << tensor.name;
    }
  }
}

std::string OpenError(const std::string& bytes) {
  const auto gguf = Gguf::Open(std::make_shared<MemoryFile>(bytes, "model.gguf"));
  EXPECT_FALSE(gguf.ok()) << "opened";
  EXPECT_LT(gguf.status().message().size(), 300u);
  return gguf.status().message();
}

TEST(GgufMalformed, MessagesNameFieldExpectationAndFinding) {
  const auto with_alignment = [](uint32_t value) { return GgufBuilder().U32("general.alignment", value).Build(); };
  const auto with_tensor = [](std::vector<uint64_t> dims, uint32_t type, uint64_t offset = 0) {
    return GgufBuilder().TensorInfo("t", dims, type, offset).Data(std::string(64, 'x')).Build();
  };
  const struct {
    std::string bytes;
    const char* says;
  } kCases[] = {
      {"", "model.gguf: the header needs 4 bytes at offset 0, the file ends at byte 0"},
      {"GGML", "model.gguf: is not a GGUF file, it begins with \"GGML\""},
      {"\x1b[2J", "model.gguf: is not a GGUF file, it begins with \"\\x1b[2J\""},
      {GgufBuilder().Build(1), "model.gguf: has GGUF version 1, expected GGUF version 2 or 3"},
      {GgufBuilder().Build(0x03000000), "model.gguf: is a big-endian GGUF file, expected GGUF version 2 or 3"},
      {with_alignment(4), "model.gguf: key \"general.alignment\" is 4, expected a power of two in 8..1048576"},
      {with_alignment(1 << 21), "key \"general.alignment\" is 2097152, expected"},
      {with_tensor({31}, 2), "model.gguf: tensor \"t\" has rows of 31 values, Q4_0 needs a multiple of 32"},
      {with_tensor({32, 0}, 2), "tensor \"t\" has dimension 1 of size 0"},
      {with_tensor({1, 1, 1, 1, 1}, 0), "tensor \"t\" has 5 dimensions, expected 1 to 4"},
      {with_tensor({}, 0), "tensor \"t\" has 0 dimensions, expected 1 to 4"},
      {with_tensor({uint64_t{1} << 32, uint64_t{1} << 32}, 24), "has dimensions whose product does not fit 64 bits"},
      {with_tensor({UINT64_MAX, 1}, 28), "has dimensions whose product does not fit 64 bits"},
      {with_tensor({(uint64_t{1} << 61) + 4}, 28), "has dimensions whose product does not fit 64 bits"},
      {with_tensor({UINT64_MAX - 255}, 15), "has dimensions whose product does not fit 64 bits"},
      {with_tensor({17}, 0), "tensor \"t\" has 68 bytes at data offset 0, the file ends at byte 128"},
      {with_tensor({8}, 0, 16), "tensor \"t\" has offset 16, expected a multiple of 32"},
      {with_tensor({1}, 43), "tensor \"t\" has unknown type 43"},
      {with_tensor({1}, 31), "tensor \"t\" has type Q4_0_4_4 (31), which GGUF has removed"},
      {GgufBuilder().Raw("a\nb", GgufValueType::kArray, WireNumber(uint32_t{9})).Build(),
       "key \"a\\x0ab\" is an array of arrays, which no model key is"},
      {GgufBuilder().U32("k", 1).U32("k", 1).Build(), "model.gguf: key \"k\" occurs twice"},
      {GgufBuilder().Number("k", GgufValueType::kBool, uint8_t{2}).Build(), "key \"k\" is a bool of value 2"},
      {GgufBuilder().Tensor("t", {1}, 24, "x").Tensor("t", {1}, 24, "x").Build(), "tensor \"t\" occurs twice"},
      {GgufBuilder().Tensor("", {1}, 24, "x").Build(), "tensor 1 of 1 has a name of 0 bytes, expected 1 to 63"},
      {GgufBuilder().Tensor(std::string(64, 'n'), {1}, 24, "x").Build(), "has a name of 64 bytes"},
      {GgufBuilder().Raw(std::string(65536, 'k'), GgufValueType::kU8, "x").Build(), "is 65536 bytes long"},
      {GgufBuilder().TensorInfo("a", {40}, 24, 0).TensorInfo("b", {1}, 24, 32).Data(std::string(64, 'x')).Build(),
       "model.gguf: tensors \"a\" and \"b\" overlap at byte "},
  };
  for (const auto& c : kCases) EXPECT_THAT(OpenError(c.bytes), HasSubstr(c.says));
}

// Names as long and as hostile as they can be still give one short line.
TEST(GgufMalformed, MessagesStayShort) {
  const std::string name = std::string(4000, '\x01') + "/\n\xff.gguf";
  const std::string key(60'000, '\x02');
  const std::string tensor(63, '\x03');
  const GgufBuilder two =
      GgufBuilder().TensorInfo(tensor, {40}, 24, 0).TensorInfo(std::string(63, '\x04'), {1}, 24, 32);
  const std::vector<std::string> cases = {
      "nope",
      GgufBuilder().Raw(key, GgufValueType::kBool, "\x05").Build(),
      GgufBuilder(two).Data("x").Build(),
      GgufBuilder(two).Data(std::string(64, 'x')).Build(),
  };
  for (const std::string& bytes : cases) {
    const auto gguf = Gguf::Open(std::make_shared<MemoryFile>(bytes, name));
    ASSERT_FALSE(gguf.ok());
    EXPECT_LT(gguf.status().message().size(), 300u) << gguf.status().message();
    EXPECT_EQ(gguf.status().message().find_first_of("\n\x01\x02\x03\x04\xff"), std::string::npos);
  }
}

// A length that fits the file, in a file as large as it claims: sparse, so that it costs the attacker nothing.
TEST(GgufMalformed, AHeaderOfGigabytesIsRefusedBeforeItIsAllocated) {
  struct SparseFile final : RandomAccessFile {
    std::string start;
    std::string path = "sparse.gguf";
    Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
      std::fill(out.begin(), out.end(), std::byte{0});
      for (size_t i = 0; i < out.size() && offset + i < start.size(); ++i) out[i] = std::byte(start[offset + i]);
      return Status::Ok();
    }
    uint64_t size() const override { return uint64_t{1} << 40; }
    const std::string& name() const override { return path; }
  };
  const auto array = [](GgufValueType element, uint64_t count) {
    return WireNumber(static_cast<uint32_t>(element)) + WireNumber(count);
  };
  const std::vector<std::string> starts = {
      GgufBuilder().Raw("k", GgufValueType::kString, WireNumber(uint64_t{1} << 39)).Build(),
      GgufBuilder().Raw("k", GgufValueType::kArray, array(GgufValueType::kU8, uint64_t{1} << 39)).Build(),
      GgufBuilder().Raw("k", GgufValueType::kArray, array(GgufValueType::kString, uint64_t{1} << 34)).Build(),
  };
  for (const std::string& start : starts) {
    const auto file = std::make_shared<SparseFile>();
    file->start = start;
    ResetLargestAllocation();
    const auto gguf = Gguf::Open(file);
    EXPECT_LT(LargestAllocation(), kMaxAllocation);
    EXPECT_EQ(gguf.status().code(), StatusCode::kUnsupported);
    EXPECT_EQ(gguf.status().message(), "sparse.gguf: the header is longer than 128 MiB");
  }
}

TEST(GgufMalformed, CountsAreCappedWhateverTheFileHolds) {
  const std::string many_tensors = "GGUF" + WireNumber(uint32_t{3}) + WireNumber(uint64_t{1} << 21) +
                                   WireNumber(uint64_t{0}) + std::string(80 << 20, '\0');
  EXPECT_THAT(OpenError(many_tensors), HasSubstr("claims 2097152 tensors, at most 1048576 are expected"));
  const std::string many_keys = "GGUF" + WireNumber(uint32_t{3}) + WireNumber(uint64_t{0}) +
                                WireNumber(uint64_t{65537}) + std::string(1 << 20, '\0');
  EXPECT_THAT(OpenError(many_keys), HasSubstr("claims 65537 metadata keys, at most 65536 are expected"));
}

}  // namespace
}  // namespace estream
