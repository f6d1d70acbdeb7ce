// SPDX-License-Identifier: Apache-2.0
// Lays parts into a record: one after the other, 128-byte aligned, the whole padded to pages.                 (§3.3)
#pragma once

#include <string>
#include <utility>

#include "family/model_plan.h"

namespace estream {

class RecordLayout {
 public:
  explicit RecordLayout(std::string name) { plan_.name = std::move(name); }

  // Pre: CanTile(format, cols).
  MatrixSpec AddMatrix(WeightFormat format, uint32_t rows, uint32_t cols, const SourceRows& source);
  // `by_expert`: see VectorPart.
  VectorSpec AddVector(uint32_t count, const SourceRows& source, bool by_expert = false);

  RecordPlan Finish() &&;

 private:
  RecordPlan plan_;
  uint64_t end_ = 0;
};

}  // namespace estream
