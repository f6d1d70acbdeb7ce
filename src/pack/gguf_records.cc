// SPDX-License-Identifier: Apache-2.0
// Records of a model file, encoded when they are asked for.
#include "pack/gguf_records.h"

#include "base/macros.h"
#include "pack/gather_rows.h"
#include "pack/record_encoder.h"
#include "pack/tensor_files.h"

namespace estream {
namespace {

constexpr uint64_t kReadBytes = 256 << 10;

class GgufRecords : public RecordSource {
 public:
  GgufRecords(const Gguf& file, const ModelPlan& plan)
      : files_(file), plan_(plan), encoder_(files_, plan, kReadBytes) {}

  Status ReadRecord(const RecordPlan& record, std::span<std::byte> out) override {
    ES_CHECK(out.size() == record.bytes);
    return encoder_.Encode(record, 0, out);
  }

  Status ReadEmbedding(std::span<const int32_t> tokens, std::span<std::byte> out) override {
    const uint64_t row_bytes = RowBytes(plan_.embedding.format, plan_.embedding.hidden);
    const auto read = [&](uint64_t first, uint64_t, std::span<std::byte> rows) {
      return encoder_.EncodeEmbedding(first * row_bytes, rows);
    };
    const auto will_read = [&](uint64_t first, uint64_t rows) {
      const GgufTensor& tensor = files_.tensors()[plan_.embedding_rows.tensor];
      files_.WillRead(tensor, (plan_.embedding_rows.first + first) * row_bytes, rows * row_bytes);
    };
    return GatherRows(tokens, row_bytes, read, will_read, out);
  }

 private:
  const TensorFiles files_;
  const ModelPlan& plan_;
  RecordEncoder encoder_;
};

}  // namespace

std::unique_ptr<RecordSource> MakeGgufRecords(const Gguf& file, const ModelPlan& plan) {
  return std::make_unique<GgufRecords>(file, plan);
}

}  // namespace estream
