// SPDX-License-Identifier: Apache-2.0
// First the plan is turned around: for each tensor, which of its rows go where. Then its rows are read in that order.
#include "pack/forward_packer.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
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

// Reads a tensor's rows once and writes each part that is made from them. While one chunk is encoded and written, the
// next one is read.
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

  // Waits for the chunk that is being placed.
  Status Settle() { return placing_.valid() ? placing_.get() : Status::Ok(); }

 private:
  // Consecutive rows of a tensor, and the parts that are made from them.
  struct Chunk {
    const GgufTensor* tensor = nullptr;
    std::span<const Use> uses;
    uint64_t row = 0;  // counts from the first one of the uses
    uint64_t rows = 0;
    AlignedBuffer buffer;

    WeightFormat format() const { return static_cast<WeightFormat>(tensor->gguf_type); }  // checked by the plan
    uint64_t row_bytes() const { return RowBytes(format(), tensor->cols()); }
    std::span<std::byte> bytes() const { return buffer.span().first(rows * row_bytes()); }
  };

  // `uses` are all of the same rows. A vector is taken whole, everything else in chunks of whole panels.
  Status PackRows(const GgufTensor& tensor, std::span<const Use> uses) {
    const uint64_t row_bytes = RowBytes(static_cast<WeightFormat>(tensor.gguf_type), tensor.cols());
    const bool whole = std::any_of(uses.begin(), uses.end(), [](const Use& u) { return u.kind == Use::Kind::kVector; });
    const uint64_t panels = std::max<uint64_t>(1, kChunkBytes / (kTileRows * row_bytes));
    const uint64_t step = whole ? uses[0].rows : panels * kTileRows;
    ES_RETURN_IF_ERROR(source_->SkipTo(tensor.offset + uses[0].first * row_bytes));
    for (uint64_t row = 0; row < uses[0].rows; row += step) {
      if (run_.cancel != nullptr && *run_.cancel) return Status::Cancelled("stopped");
      Chunk& chunk = chunks_[next_chunk_];
      next_chunk_ = 1 - next_chunk_;
      chunk.tensor = &tensor;
      chunk.uses = uses;
      chunk.row = row;
      chunk.rows = std::min(step, uses[0].rows - row);
      ES_RETURN_IF_ERROR(MakeRoom(chunk.rows * row_bytes, &chunk.buffer));
      ES_RETURN_IF_ERROR(source_->Read(chunk.bytes()));
      ES_RETURN_IF_ERROR(Settle());
      placing_ = std::async(std::launch::async, [this, &chunk] { return Place(chunk); });
      if (run_.progress) run_.progress(source_->position());
    }
    return Status::Ok();
  }

  Status Place(const Chunk& chunk) {
    const Use& first = chunk.uses[0];
    ES_RETURN_IF_ERROR(CheckFinite(source_->gguf().path(), *chunk.tensor, chunk.format(), first.first + chunk.row,
                                   chunk.rows, chunk.bytes().data(), first.record));
    for (const Use& use : chunk.uses) ES_RETURN_IF_ERROR(PlaceOne(chunk, use));
    return Status::Ok();
  }

  Status PlaceOne(const Chunk& chunk, const Use& use) {
    const uint64_t row_bytes = chunk.row_bytes();
    switch (use.kind) {
      case Use::Kind::kEmbedding:
        return output_->WriteAt(use.offset + chunk.row * row_bytes, chunk.bytes());
      case Use::Kind::kVector:
        values_.resize(chunk.rows * chunk.tensor->cols());
        DequantizeRow(chunk.format(), chunk.bytes().data(), values_.data(), values_.size());
        if (use.order != nullptr) PermuteByExpert(*use.order, values_);
        return output_->WriteAt(use.offset, std::as_bytes(std::span(values_)));
      case Use::Kind::kMatrix:
        break;
    }
    const uint32_t cols = use.matrix.cols;
    const uint64_t panel_bytes = MakePanelLayout(chunk.format(), cols).bytes, panels = CeilDiv(chunk.rows, kTileRows);
    ES_RETURN_IF_ERROR(MakeRoom(panels * panel_bytes, &panels_));
    pool_.Run(panels, [&](uint32_t, uint64_t p) {
      const auto rows = static_cast<uint32_t>(std::min<uint64_t>(kTileRows, chunk.rows - p * kTileRows));
      EncodePanel(chunk.format(), chunk.bytes().data() + p * kTileRows * row_bytes, row_bytes, rows, cols,
                  panels_.data() + p * panel_bytes);
    });
    return output_->WriteAt(use.offset + chunk.row / kTileRows * panel_bytes,
                            panels_.span().first(panels * panel_bytes));
  }

  // Buffers begin on a page, so that whole pages are written directly.
  static Status MakeRoom(uint64_t bytes, AlignedBuffer* buffer) {
    if (buffer->bytes() >= bytes) return Status::Ok();
    buffer->Reset();
    ES_ASSIGN_OR_RETURN(*buffer, AlignedBuffer::Allocate(AlignUp(bytes, kPageBytes)));
    return Status::Ok();
  }

  const PackRun& run_;
  ForwardSource* const source_;
  PackOutput* const output_;
  Chunk chunks_[2];
  int next_chunk_ = 0;
  // Used by the chunk that is being placed:
  ThreadPool pool_;
  AlignedBuffer panels_;
  std::vector<float> values_;
  std::future<Status> placing_;  // last, so that it ends before what it uses
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
  return packer.Settle();
}

}  // namespace estream
