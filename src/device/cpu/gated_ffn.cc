// SPDX-License-Identifier: Apache-2.0
// Gate and up are computed as tile pairs, so that SwiGLU finds both in the cache.
#include "device/cpu/gated_ffn.h"

namespace estream {

void GatedFfn::RunInner(const CpuContext& context, const TiledMatrix& gate, const TiledMatrix& up, const float* x,
                        size_t x_stride, uint32_t rows) const {
  float* const inner = inner_.at(context.scratch);
  const uint64_t inner_stride = PaddedStride(gate.rows);
  context.pool->Run(gate.panels(), [&](uint32_t thread, uint64_t panel) {
    float* const decoded = panels_.decoded.at(context.scratch, thread);
    float* const gate_tile = gate_tile_.at(context.scratch, thread);
    float* const up_tile = panels_.tile.at(context.scratch, thread);
    PanelProduct(gate, panel, x, x_stride, rows, decoded, gate_tile);
    PanelProduct(up, panel, x, x_stride, rows, decoded, up_tile);
    for (uint32_t r = 0; r < rows; ++r) {
      const size_t row = size_t{r} * kTileRows;
      SwiGlu(gate_tile + row, up_tile + row, PanelColumns(gate.rows, panel),
             inner + r * inner_stride + panel * kTileRows);
    }
  });
}

}  // namespace estream
