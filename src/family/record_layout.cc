// SPDX-License-Identifier: Apache-2.0
// 128 bytes is a line of the widest vectors and of a tile; a page is what direct reads ask for.
#include "family/record_layout.h"

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "format/tile.h"

namespace estream {

MatrixSpec RecordLayout::AddMatrix(WeightFormat format, uint32_t rows, uint32_t cols, const SourceRows& source) {
  const MatrixSpec spec{format, rows, cols, 0, end_};
  end_ = AlignUp(end_ + TiledBytes(format, rows, cols), kPlaneAlignment);
  plan_.matrices.push_back({spec, source});
  return spec;
}

VectorSpec RecordLayout::AddVector(uint32_t count, const SourceRows& source, bool by_expert) {
  const VectorSpec spec{count, 0, end_};
  end_ = AlignUp(end_ + uint64_t{count} * sizeof(float), kPlaneAlignment);
  plan_.vectors.push_back({spec, source, by_expert});
  return spec;
}

RecordPlan RecordLayout::Finish() && {
  plan_.bytes = AlignUp(end_, kPageBytes);
  return std::move(plan_);
}

}  // namespace estream
