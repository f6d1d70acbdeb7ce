// SPDX-License-Identifier: Apache-2.0
// Row blocks one after the other, the panels of each in parallel.
#include "device/cpu/linear.h"

namespace estream {

LinearOp::LinearOp(const LinearSpec& spec, const Capacity& capacity, Activations activations, ScratchPlan* plan)
    : spec_(spec),
      input_(activations, {spec.matrix}, std::min(kRowBlock, capacity.tokens), plan),
      panels_(PanelScratch::Plan(*plan, std::min(kRowBlock, capacity.tokens))) {}

Status LinearOp::Run(const CpuContext& context, const BoundBlockCall& call) const {
  const TiledMatrix w(spec_.matrix, call.weights);
  const uint64_t first_panel = call.first_row / kTileRows;
  const uint64_t panel_count = CeilDiv(call.row_count, kTileRows);
  for (uint32_t first = 0; first < call.rows; first += kRowBlock) {
    const uint32_t rows = std::min(kRowBlock, call.rows - first);
    float* const out = call.out + uint64_t{first} * call.out_stride;
    const ProductRows x = input_.Take(context, call.in + uint64_t{first} * w.cols, w.cols, rows);
    ForEachColumns(context, panels_, w, first_panel, panel_count, x, [&](const ProductColumns& c) {
      const uint64_t column = c.first - call.first_row;
      const uint64_t columns = std::min<uint64_t>(c.count, call.row_count - column);
      for (uint32_t r = 0; r < rows; ++r) std::copy_n(c.row(r), columns, out + uint64_t{r} * call.out_stride + column);
    });
  }
  return Status::Ok();
}

}  // namespace estream
