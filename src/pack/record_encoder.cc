// SPDX-License-Identifier: Apache-2.0
// Panels that lie inside the asked range are tiled in place; one that is cut by its edge goes through a scratch panel.
#include "pack/record_encoder.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/macros.h"
#include "format/tile.h"
#include "pack/record_name.h"

namespace estream {
namespace {

// The part of [0, bytes), which lies at `offset` of the record, that the range [first, first + count) asks for.
struct Overlap {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool empty() const { return begin >= end; }
};

Overlap OverlapOf(uint64_t offset, uint64_t bytes, uint64_t first, uint64_t count) {
  const uint64_t begin = std::max(offset, first), end = std::min(offset + bytes, first + count);
  return begin >= end ? Overlap{} : Overlap{begin - offset, end - offset};
}

}  // namespace

void PermuteByExpert(std::span<const uint32_t> order, std::span<float> values) {
  if (order.empty()) return;
  const std::vector<float> source(values.begin(), values.end());
  const size_t run = values.size() / order.size();
  for (size_t p = 0; p < order.size(); ++p) std::copy_n(&source[order[p] * run], run, &values[p * run]);
}

Status RecordEncoder::Encode(const RecordPlan& record, uint64_t first, std::span<std::byte> out) {
  ES_CHECK(first <= record.bytes && out.size() <= record.bytes - first);
  std::fill(out.begin(), out.end(), std::byte{0});
  for (const VectorPart& part : record.vectors) ES_RETURN_IF_ERROR(EncodeVector(part, record, first, out));
  for (const MatrixPart& part : record.matrices) ES_RETURN_IF_ERROR(EncodeMatrix(part, record, first, out));
  return Status::Ok();
}

Result<std::span<const std::byte>> RecordEncoder::ReadRows(const GgufTensor& tensor, WeightFormat format,
                                                           uint64_t first, uint64_t rows, const std::string& record) {
  const uint64_t row_bytes = RowBytes(format, tensor.cols());
  ES_ASSIGN_OR_RETURN(const auto bytes, files_.Read(tensor, first * row_bytes, rows * row_bytes, &rows_));
  ES_RETURN_IF_ERROR(CheckFinite(files_.name(), tensor, format, first, rows, bytes.data(), record));
  return bytes;
}

// A vector is small (the largest are the router's rows), so it is made as a whole.
Status RecordEncoder::EncodeVector(const VectorPart& part, const RecordPlan& record, uint64_t first,
                                   std::span<std::byte> out) {
  const VectorSpec& v = part.spec;
  const Overlap part_of = OverlapOf(v.offset, uint64_t{v.count} * sizeof(float), first, out.size());
  if (part_of.empty()) return Status::Ok();
  const GgufTensor& tensor = files_.tensors()[part.source.tensor];
  const auto format = static_cast<WeightFormat>(tensor.gguf_type);  // checked by the plan
  ES_CHECK(part.source.rows * tensor.cols() == v.count);
  ES_ASSIGN_OR_RETURN(const auto bytes, ReadRows(tensor, format, part.source.first, part.source.rows, record.name));
  values_.resize(v.count);
  DequantizeRow(format, bytes.data(), values_.data(), v.count);
  if (part.by_expert) {
    const auto id = FindRecord(plan_, record.name);
    ES_CHECK(id && id->kind == RecordKind::kBlock);
    PermuteByExpert(plan_.layers[id->layer].expert_order, values_);
  }
  std::memcpy(out.data() + (v.offset + part_of.begin - first),
              reinterpret_cast<const std::byte*>(values_.data()) + part_of.begin, part_of.end - part_of.begin);
  return Status::Ok();
}

Status RecordEncoder::EncodeMatrix(const MatrixPart& part, const RecordPlan& record, uint64_t first,
                                   std::span<std::byte> out) {
  const MatrixSpec& m = part.spec;
  const Overlap wanted = OverlapOf(m.offset, TiledBytes(m.format, m.rows, m.cols), first, out.size());
  if (wanted.empty()) return Status::Ok();
  const GgufTensor& tensor = files_.tensors()[part.source.tensor];
  const uint64_t row_bytes = RowBytes(m.format, m.cols);
  const uint64_t panel_bytes = MakePanelLayout(m.format, m.cols).bytes;
  const uint64_t panels_end = CeilDiv(wanted.end, panel_bytes);
  const uint64_t panels_per_read = std::max<uint64_t>(1, read_bytes_ / (kTileRows * row_bytes));

  for (uint64_t p = wanted.begin / panel_bytes; p < panels_end;) {
    const uint64_t read_end = std::min(panels_end, p + panels_per_read);
    const uint64_t row = p * kTileRows, rows = std::min<uint64_t>(m.rows, read_end * kTileRows) - row;
    ES_ASSIGN_OR_RETURN(const auto bytes, ReadRows(tensor, m.format, part.source.first + row, rows, record.name));
    for (const std::byte* src = bytes.data(); p < read_end; ++p, src += kTileRows * row_bytes) {
      const auto count = static_cast<uint32_t>(std::min<uint64_t>(kTileRows, m.rows - p * kTileRows));
      const uint64_t begin = std::max(wanted.begin, p * panel_bytes), end = std::min(wanted.end, (p + 1) * panel_bytes);
      std::byte* to = out.data() + (m.offset + begin - first);
      if (end - begin == panel_bytes) {
        EncodePanel(m.format, src, row_bytes, count, m.cols, to);
        continue;
      }
      panel_.resize(panel_bytes);
      EncodePanel(m.format, src, row_bytes, count, m.cols, panel_.data());
      std::memcpy(to, panel_.data() + (begin - p * panel_bytes), end - begin);
    }
  }
  return Status::Ok();
}

Status RecordEncoder::EncodeEmbedding(uint64_t first, std::span<std::byte> out) {
  const GgufTensor& tensor = files_.tensors()[plan_.embedding_rows.tensor];
  const WeightFormat format = plan_.embedding.format;
  const uint64_t row_bytes = RowBytes(format, plan_.embedding.hidden);
  std::fill(out.begin(), out.end(), std::byte{0});
  const Overlap wanted = OverlapOf(0, plan_.embedding_rows.rows * row_bytes, first, out.size());
  const uint64_t rows_end = CeilDiv(wanted.end, row_bytes);
  const uint64_t rows_per_read = std::max<uint64_t>(1, read_bytes_ / row_bytes);
  for (uint64_t row = wanted.begin / row_bytes; row < rows_end;) {
    const uint64_t rows = std::min(rows_per_read, rows_end - row);
    ES_ASSIGN_OR_RETURN(const auto bytes,
                        ReadRows(tensor, format, plan_.embedding_rows.first + row, rows, "embedding"));
    const uint64_t begin = std::max(wanted.begin, row * row_bytes),
                   end = std::min(wanted.end, (row + rows) * row_bytes);
    std::memcpy(out.data() + (begin - first), bytes.data() + (begin - row * row_bytes), end - begin);
    row += rows;
  }
  return Status::Ok();
}

}  // namespace estream
