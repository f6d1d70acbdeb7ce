// SPDX-License-Identifier: Apache-2.0
// Any range of a record is that range of the whole record; orders move the router's rows; bad scales are named.
#include "pack/record_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/half.h"
#include "family/family.h"
#include "tests/pack_rig.h"
#include "tests/random.h"
#include "tests/tiny_model.h"

namespace estream {
namespace {

// A model written to a file, opened and planned.
struct OpenModel {
  explicit OpenModel(const std::string& bytes) {
    WriteBinary(dir.File("m.gguf"), bytes);
    gguf = std::make_unique<Gguf>(Gguf::Open(dir.File("m.gguf")).value());
    plan = PlanModel(*gguf).value();
    files = std::make_unique<TensorFiles>(TensorFiles::OpenDirect(*gguf).value());
  }
  TempDir dir;
  std::unique_ptr<Gguf> gguf;
  ModelPlan plan;
  std::unique_ptr<TensorFiles> files;
};

std::vector<std::byte> Whole(const OpenModel& model, const RecordPlan& record) {
  RecordEncoder encoder(*model.files, model.plan, 1 << 20);
  std::vector<std::byte> out(record.bytes, std::byte{0xEE});
  const Status status = encoder.Encode(record, 0, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

TEST(RecordEncoder, AnyRangeIsPartOfTheWhole) {
  Random random(std::random_device{}());
  SCOPED_TRACE(random.seed());
  for (const WeightFormat format : {WeightFormat::kQ4_0, WeightFormat::kQ6_K, WeightFormat::kF16}) {
    const OpenModel model(TinyModelBytes({.format = format}));
    const RecordPlan records[] = {model.plan.layers[1].block, ExpertRecord(model.plan, 0, 2), model.plan.final_record,
                                  model.plan.head_record};
    for (const RecordPlan& record : records) {
      SCOPED_TRACE(record.name);
      const std::vector<std::byte> whole = Whole(model, record);
      RecordEncoder encoder(*model.files, model.plan, 1);  // one panel a read
      for (int i = 0; i < 30; ++i) {
        const uint64_t first = random.Below(static_cast<uint32_t>(record.bytes));
        const uint64_t bytes = random.Below(static_cast<uint32_t>(record.bytes - first + 1));
        std::vector<std::byte> part(bytes, std::byte{0xEE});
        ASSERT_TRUE(encoder.Encode(record, first, part).ok());
        ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first << " + " << bytes;
      }
    }
  }
}

TEST(RecordEncoder, TheEmbeddingIsTheSourcesRowsThenZeros) {
  const OpenModel model(TinyModelBytes({.format = WeightFormat::kQ8_0}));
  const GgufTensor& tensor = *model.gguf->FindTensor("token_embd.weight");
  std::vector<std::byte> expected(tensor.bytes + 100), out(tensor.bytes + 100, std::byte{0xEE});
  ASSERT_TRUE(model.gguf->ReadTensor(tensor, 0, std::span(expected).first(tensor.bytes)).ok());
  RecordEncoder encoder(*model.files, model.plan, 1000);
  ASSERT_TRUE(encoder.EncodeEmbedding(0, out).ok());
  EXPECT_EQ(out, expected);
  for (const uint64_t first :
       {uint64_t{1}, uint64_t{271}, uint64_t{272}, uint64_t{5000}, tensor.bytes - 1, tensor.bytes}) {
    std::vector<std::byte> part(std::min<uint64_t>(600, expected.size() - first), std::byte{0xEE});
    ASSERT_TRUE(encoder.EncodeEmbedding(first, part).ok());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + first)) << first;
  }
}

TEST(RecordEncoder, AnOrderMovesRouterRowsAndNothingElse) {
  OpenModel model(TinyModelBytes({}));
  const RecordPlan& block = model.plan.layers[1].block;
  const std::vector<std::byte> as_source = Whole(model, block);
  model.plan.layers[1].expert_order = {2, 0, 1};
  const std::vector<std::byte> ordered = Whole(model, block);
  const VectorSpec& router = model.plan.layers[1].router.router;
  const uint64_t row_bytes = 256 * sizeof(float);
  ASSERT_EQ(router.count * sizeof(float), 3 * row_bytes);
  std::vector<std::byte> expected = as_source;
  for (uint64_t p = 0; p < 3; ++p) {
    const uint64_t from = model.plan.layers[1].expert_order[p];
    std::memcpy(&expected[router.offset + p * row_bytes], &as_source[router.offset + from * row_bytes], row_bytes);
  }
  EXPECT_EQ(ordered, expected);
  EXPECT_NE(ordered, as_source);
}

TEST(RecordEncoder, PermutesRunsOfAnyLength) {
  std::vector<float> bias = {10, 11, 12}, rows = {0, 1, 10, 11, 20, 21};
  const std::vector<uint32_t> order = {1, 2, 0};
  PermuteByExpert(order, bias);
  PermuteByExpert(order, rows);
  EXPECT_EQ(bias, (std::vector<float>{11, 12, 10}));
  EXPECT_EQ(rows, (std::vector<float>{10, 11, 20, 21, 0, 1}));
  PermuteByExpert({}, bias);
  EXPECT_EQ(bias, (std::vector<float>{11, 12, 10}));
}

TEST(RecordEncoder, ANonFiniteScaleIsNamedWithItsRecord) {
  std::string bytes = TinyModelBytes({});
  const OpenModel sound(bytes);
  const GgufTensor& tensor = *sound.gguf->FindTensor("blk.1.ffn_up_exps.weight");
  const uint64_t row = 256 + 37, block = 3;  // expert 1, its row 37
  const uint16_t infinity = 0x7C00;
  std::memcpy(bytes.data() + tensor.offset + row * RowBytes(WeightFormat::kQ4_0, 256) + block * 18, &infinity, 2);
  const OpenModel model(bytes);
  RecordEncoder encoder(*model.files, model.plan, 1 << 20);
  const RecordPlan record = ExpertRecord(model.plan, 1, 1);
  std::vector<std::byte> out(record.bytes);
  const Status status = encoder.Encode(record, 0, out);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_NE(status.message().find("tensor \"blk.1.ffn_up_exps.weight\" has a NaN or infinite block scale in row 293 at "
                                  "element 96 (blk.1.expert.1)"),
            std::string::npos)
      << status.message();
  EXPECT_LT(status.message().size(), 300u);
}

}  // namespace
}  // namespace estream
