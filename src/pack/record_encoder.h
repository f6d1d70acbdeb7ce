// SPDX-License-Identifier: Apache-2.0
// Records as a function of the source: any byte range of a record, computed from the rows it comes from.
#pragma once

#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "estream/status.h"
#include "family/model_plan.h"
#include "pack/tensor_files.h"

namespace estream {

// Rearranges E runs of values, one an expert, from the source's order into pack order; no order leaves them.
void PermuteByExpert(std::span<const uint32_t> order, std::span<float> values);

// Reads, checks and tiles. One for each thread; `files` and `plan` are shared and must outlive it.
// Cost: holds one read (about `read_bytes`, at least 32 rows), one panel and one vector.
class RecordEncoder {
 public:
  RecordEncoder(const TensorFiles& files, const ModelPlan& plan, uint64_t read_bytes)
      : files_(files), plan_(plan), read_bytes_(read_bytes) {}

  // Fills `out` with record bytes [first, first + out.size()).
  // Errors: Io; Corrupt, naming tensor and row, for a NaN or infinite scale. Pre: inside the record.
  Status Encode(const RecordPlan& record, uint64_t first, std::span<std::byte> out);

  // The same for the embedding: its rows as the source has them, one after the other, then zeros.
  Status EncodeEmbedding(uint64_t first, std::span<std::byte> out);

 private:
  Status EncodeVector(const VectorPart& part, const RecordPlan& record, uint64_t first, std::span<std::byte> out);
  Status EncodeMatrix(const MatrixPart& part, const RecordPlan& record, uint64_t first, std::span<std::byte> out);
  Result<std::span<const std::byte>> ReadRows(const GgufTensor& tensor, WeightFormat format, uint64_t first,
                                              uint64_t rows, const std::string& record);

  const TensorFiles& files_;
  const ModelPlan& plan_;
  const uint64_t read_bytes_;
  AlignedBuffer rows_;
  std::vector<std::byte> panel_;
  std::vector<float> values_;
};

}  // namespace estream
