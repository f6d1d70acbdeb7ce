// SPDX-License-Identifier: Apache-2.0
// Where records come from: built from a model file, or read from a pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "estream/status.h"
#include "family/model_plan.h"

namespace estream {

class RecordSource {
 public:
  virtual ~RecordSource() = default;

  // Fills `out`, [record.bytes], with the record as devices read it.
  // Errors: Io; Corrupt, naming tensor and row, for a NaN or infinite scale.
  virtual Status ReadRecord(const RecordPlan& record, std::span<std::byte> out) = 0;

  // Gathers embedding rows in GGUF block layout, RowBytes(format, hidden) each: row i of `out` is that of tokens[i].
  // Reads only these rows, each once, neighbours together.
  // Errors: as ReadRecord. Pre: tokens < vocabulary.
  virtual Status ReadEmbedding(std::span<const int32_t> tokens, std::span<std::byte> out) = 0;
};

}  // namespace estream
