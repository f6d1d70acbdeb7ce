// SPDX-License-Identifier: Apache-2.0
// One panel of 32 source rows is read, looked through for non-finite scales, and tiled into its place.
#include "pack/gguf_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/macros.h"
#include "format/tile.h"

namespace estream {
namespace {

class GgufRecords : public RecordSource {
 public:
  GgufRecords(const Gguf& file, const ModelPlan& plan) : file_(file), plan_(plan) {}

  Status ReadRecord(const RecordPlan& record, std::span<std::byte> out) override {
    ES_CHECK(out.size() == record.bytes);
    std::fill(out.begin(), out.end(), std::byte{0});
    for (const VectorPart& part : record.vectors) ES_RETURN_IF_ERROR(ReadVector(part, out.data()));
    for (const MatrixPart& part : record.matrices) ES_RETURN_IF_ERROR(ReadMatrix(part, out.data()));
    return Status::Ok();
  }

  Status ReadEmbedding(std::span<const int32_t> tokens, std::span<std::byte> out) override {
    const GgufTensor& tensor = file_.tensors()[plan_.embedding_rows.tensor];
    const uint64_t row_bytes = RowBytes(plan_.embedding.format, plan_.embedding.hidden);
    ES_CHECK(out.size() == tokens.size() * row_bytes);
    std::vector<uint32_t> order(tokens.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return tokens[a] < tokens[b]; });
    for (size_t i = 0; i < order.size(); ++i) {
      std::byte* row = out.data() + order[i] * row_bytes;
      const auto token = static_cast<uint64_t>(tokens[order[i]]);
      if (i > 0 && tokens[order[i - 1]] == tokens[order[i]]) {
        std::memcpy(row, out.data() + order[i - 1] * row_bytes, row_bytes);
        continue;
      }
      ES_RETURN_IF_ERROR(file_.ReadTensor(tensor, token * row_bytes, {row, row_bytes}));
      ES_RETURN_IF_ERROR(CheckFinite(tensor, plan_.embedding.format, token, row));
    }
    return Status::Ok();
  }

 private:
  // Reads rows [first, first + count) of a tensor into rows_; each must be free of NaN and infinity.
  Status ReadRows(const GgufTensor& tensor, WeightFormat format, uint64_t first, uint64_t count) {
    const uint64_t row_bytes = RowBytes(format, tensor.cols());
    rows_.resize(count * row_bytes);
    ES_RETURN_IF_ERROR(file_.ReadTensor(tensor, first * row_bytes, rows_));
    for (uint64_t r = 0; r < count; ++r) {
      ES_RETURN_IF_ERROR(CheckFinite(tensor, format, first + r, rows_.data() + r * row_bytes));
    }
    return Status::Ok();
  }

  Status CheckFinite(const GgufTensor& tensor, WeightFormat format, uint64_t row, const std::byte* bytes) const {
    const auto bad = FindNonFinite(format, bytes, tensor.cols());
    if (!bad) return Status::Ok();
    return Status::Corrupt(fmt::format("{}: tensor \"{}\" has a NaN or infinite {} in row {} at element {}", file_.path(),
                                       tensor.name, Traits(format).block_elements > 1 ? "block scale" : "value", row, *bad));
  }

  Status ReadVector(const VectorPart& part, std::byte* record) {
    const GgufTensor& tensor = file_.tensors()[part.source.tensor];
    const auto format = static_cast<WeightFormat>(tensor.gguf_type);  // checked by the plan
    ES_RETURN_IF_ERROR(ReadRows(tensor, format, part.source.first, part.source.rows));
    ES_CHECK(part.source.rows * tensor.cols() == part.spec.count);
    DequantizeRow(format, rows_.data(), reinterpret_cast<float*>(record + part.spec.offset), part.spec.count);
    return Status::Ok();
  }

  Status ReadMatrix(const MatrixPart& part, std::byte* record) {
    const GgufTensor& tensor = file_.tensors()[part.source.tensor];
    const MatrixSpec& m = part.spec;
    const uint64_t row_bytes = RowBytes(m.format, m.cols);
    const uint64_t panel_bytes = MakePanelLayout(m.format, m.cols).bytes;
    std::byte* panel = record + m.offset;
    for (uint32_t r = 0; r < m.rows; r += kTileRows, panel += panel_bytes) {
      const uint32_t count = std::min(kTileRows, m.rows - r);
      ES_RETURN_IF_ERROR(ReadRows(tensor, m.format, part.source.first + r, count));
      EncodePanel(m.format, rows_.data(), row_bytes, count, m.cols, panel);
    }
    return Status::Ok();
  }

  const Gguf& file_;
  const ModelPlan& plan_;
  std::vector<std::byte> rows_;
};

}  // namespace

std::unique_ptr<RecordSource> MakeGgufRecords(const Gguf& file, const ModelPlan& plan) {
  return std::make_unique<GgufRecords>(file, plan);
}

}  // namespace estream
