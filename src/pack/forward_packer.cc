// SPDX-License-Identifier: Apache-2.0
// First the plan is turned around: for each tensor, which of its rows go where. Then its rows are read in that order.
#include "pack/forward_packer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/macros.h"
#include "base/thread_pool.h"
#include "format/quote.h"
#include "format/tile.h"
#include "pack/record_encoder.h"
#include "pack/tensor_files.h"

namespace estream {
namespace {

constexpr uint64_t kChunkBytes = 4 << 20;

// Rows of a tensor that one part of a record is made from.
struct Use {
  enum class Kind { kMatrix, kVector, kEmbedding };
  Kind kind = Kind::kMatrix;
  uint64_t first = 0;
  uint64_t rows = 0;
  uint64_t offset = 0;  // of the part in the file
  std::string record;
  MatrixSpec matrix;                             // kMatrix
  const std::vector<uint32_t>* order = nullptr;  // kVector by expert
};

// The uses of every tensor.
class UseTable {
 public:
  UseTable(const PackRun& run, size_t tensor_count) : run_(run), uses_(tensor_count) {
    for (const PackRegion& region : run.regions) AddRegion(region);
    for (std::vector<Use>& uses : uses_) {
      std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.first < b.first; });
    }
  }

  const std::vector<Use>& of(size_t tensor) const { return uses_[tensor]; }

 private:
  void AddRegion(const PackRegion& region) {
    const ModelPlan& plan = run_.plan;
    if (region.kind == RegionKind::kFinalNorm) AddRecord(plan.final_record, region.offset, nullptr);
    if (region.kind == RegionKind::kHead) AddRecord(plan.head_record, region.offset, nullptr);
    if (region.kind == RegionKind::kBlock) {
      const LayerPlan& layer = plan.layers[region.layer];
      AddRecord(layer.block, region.offset, &layer.expert_order);
    }
    if (region.kind == RegionKind::kExperts) {
      for (uint32_t p = 0; p < plan.experts; ++p) {
        AddRecord(ExpertRecord(plan, region.layer, p), region.offset + p * region.unit_bytes, nullptr);
      }
    }
    if (region.kind == RegionKind::kEmbedding) {
      const SourceRows& rows = plan.embedding_rows;
      uses_[rows.tensor].push_back(
          {Use::Kind::kEmbedding, rows.first, rows.rows, region.offset, region.name, {}, nullptr});
    }
  }

  void AddRecord(const RecordPlan& record, uint64_t offset, const std::vector<uint32_t>* order) {
    for (const VectorPart& v : record.vectors) {
      uses_[v.source.tensor].push_back({Use::Kind::kVector,
                                        v.source.first,
                                        v.source.rows,
                                        offset + v.spec.offset,
                                        record.name,
                                        {},
                                        v.by_expert ? order : nullptr});
    }
    for (const MatrixPart& m : record.matrices) {
      uses_[m.source.tensor].push_back(
          {Use::Kind::kMatrix, m.source.first, m.source.rows, offset + m.spec.offset, record.name, m.spec, nullptr});
    }
  }

  const PackRun& run_;
  std::vector<std::vector<Use>> uses_;
};

// Reads a tensor's rows once and writes each part that is made from them.
class TensorPacker {
 public:
  TensorPacker(const PackRun& run, ForwardSource* source, PackOutput* output)
      : run_(run), source_(source), output_(output), pool_(run.threads == 0 ? UsableProcessors() : run.threads) {}

  Status Pack(const GgufTensor& tensor, std::span<const Use> uses) {
    uint64_t end = 0;
    while (!uses.empty()) {
      size_t same = 1;
      while (same < uses.size() && uses[same].first == uses[0].first && uses[same].rows == uses[0].rows) ++same;
      if (uses[0].first < end) {
        return Status::Unsupported(fmt::format("{}: tensor {} is used by overlapping records; pack it from a file",
                                               ShownPath(source_->gguf().path()), Quoted(tensor.name)));
      }
      end = uses[0].first + uses[0].rows;
      ES_RETURN_IF_ERROR(PackRows(tensor, uses.first(same)));
      uses = uses.subspan(same);
    }
    return Status::Ok();
  }

 private:
  // `uses` are all of the same rows. A vector is taken whole, everything else in chunks of whole panels.
  Status PackRows(const GgufTensor& tensor, std::span<const Use> uses) {
    const auto format = static_cast<WeightFormat>(tensor.gguf_type);  // checked by the plan
    const uint64_t row_bytes = RowBytes(format, tensor.cols()), first = uses[0].first, rows = uses[0].rows;
    const bool whole = std::any_of(uses.begin(), uses.end(), [](const Use& u) { return u.kind == Use::Kind::kVector; });
    const uint64_t panels = std::max<uint64_t>(1, kChunkBytes / (kTileRows * row_bytes));
    const uint64_t chunk = whole ? rows : panels * kTileRows;
    ES_RETURN_IF_ERROR(source_->SkipTo(tensor.offset + first * row_bytes));
    for (uint64_t row = 0; row < rows; row += chunk) {
      if (run_.cancel != nullptr && *run_.cancel) return Status::Cancelled("stopped");
      const uint64_t count = std::min(chunk, rows - row);
      rows_.resize(count * row_bytes);
      ES_RETURN_IF_ERROR(source_->Read(rows_));
      ES_RETURN_IF_ERROR(
          CheckFinite(source_->gguf().path(), tensor, format, first + row, count, rows_.data(), uses[0].record));
      for (const Use& use : uses) ES_RETURN_IF_ERROR(Place(use, tensor, format, row, count));
      if (run_.progress) run_.progress(source_->position());
    }
    return Status::Ok();
  }

  // Writes what `use` makes of rows [row, row + count) of its own, which are in rows_.
  Status Place(const Use& use, const GgufTensor& tensor, WeightFormat format, uint64_t row, uint64_t count) {
    switch (use.kind) {
      case Use::Kind::kEmbedding:
        return output_->WriteAt(use.offset + row * RowBytes(format, tensor.cols()), rows_);
      case Use::Kind::kVector:
        values_.resize(count * tensor.cols());
        DequantizeRow(format, rows_.data(), values_.data(), values_.size());
        if (use.order != nullptr) PermuteByExpert(*use.order, values_);
        return output_->WriteAt(use.offset, std::as_bytes(std::span(values_)));
      case Use::Kind::kMatrix:
        break;
    }
    const uint32_t cols = use.matrix.cols;
    const uint64_t row_bytes = RowBytes(format, cols), panel_bytes = MakePanelLayout(format, cols).bytes;
    panels_.resize(CeilDiv(count, kTileRows) * panel_bytes);
    pool_.Run(CeilDiv(count, kTileRows), [&](uint32_t, uint64_t p) {
      const uint64_t at = p * kTileRows;
      EncodePanel(format, rows_.data() + at * row_bytes, row_bytes,
                  static_cast<uint32_t>(std::min<uint64_t>(kTileRows, count - at)), cols,
                  panels_.data() + p * panel_bytes);
    });
    return output_->WriteAt(use.offset + row / kTileRows * panel_bytes, panels_);
  }

  const PackRun& run_;
  ForwardSource* const source_;
  PackOutput* const output_;
  ThreadPool pool_;
  std::vector<std::byte> rows_;
  std::vector<std::byte> panels_;
  std::vector<float> values_;
};

}  // namespace

Status PackForward(const PackRun& run, ForwardSource* source, PackOutput* output) {
  const std::vector<GgufTensor>& tensors = source->gguf().tensors();
  const UseTable uses(run, tensors.size());
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return tensors[a].offset < tensors[b].offset; });
  TensorPacker packer(run, source, output);
  for (const uint32_t t : order) ES_RETURN_IF_ERROR(packer.Pack(tensors[t], uses.of(t)));
  return Status::Ok();
}

}  // namespace estream
