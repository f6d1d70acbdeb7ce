// SPDX-License-Identifier: Apache-2.0
// Rows are quantised in parallel, each on its own, so that its bits do not depend on its company.
#include "device/cpu/product_rows.h"

#include <algorithm>

namespace estream {

QuantizedScratch QuantizedScratch::Plan(ScratchPlan& plan, uint32_t rows, uint64_t cols) {
  return {plan.Shared<int8_t>(QuantizedValueBytes(rows, cols)),
          plan.Shared<ActivationBlock>(QuantizedBlockBytes(rows, cols) / sizeof(ActivationBlock))};
}

QuantizedRows QuantizedScratch::at(std::byte* scratch, uint32_t rows, uint64_t cols) const {
  return {.rows = rows, .cols = cols, .values = values.at(scratch), .blocks = blocks.at(scratch)};
}

ProductInput::ProductInput(Activations activations, std::initializer_list<MatrixSpec> matrices, uint32_t rows,
                           ScratchPlan* plan)
    : quantizes_(
          std::any_of(matrices.begin(), matrices.end(), [&](const MatrixSpec& w) { return TakesQ8(activations, w); })),
      cols_(matrices.begin()->cols) {
  if (quantizes_) scratch_ = QuantizedScratch::Plan(*plan, rows, cols_);
}

ProductRows ProductInput::Take(const CpuContext& context, const float* x, size_t stride, uint32_t rows) const {
  ProductRows taken{.x = x, .stride = stride, .rows = rows, .q = {}};
  if (!quantizes_) return taken;
  taken.q = scratch_.at(context.scratch, rows, cols_);
  ForEachRow(context, rows, [&](uint32_t, uint32_t r) { QuantizeRow(x + r * stride, r, taken.q); });
  return taken;
}

}  // namespace estream
