// SPDX-License-Identifier: Apache-2.0
// Gate and up are computed as tile pairs, so that SwiGLU finds both in the cache. A pair's 32 columns are one block of
// the down projection's input: if that is int8, it is quantised there and then, and floats of it are never stored.
#include "device/cpu/gated_ffn.h"

#include "base/macros.h"

namespace estream {

GatedFfn::GatedFfn(const MatrixSpec& down, uint32_t rows, Activations activations, ScratchPlan* plan)
    : quantizes_inner_(TakesQ8(activations, down)),
      gate_tile_(plan->PerThread<float>(uint64_t{rows} * kTileRows)),
      up_tile_(plan->PerThread<float>(uint64_t{rows} * kTileRows)),
      panels_(PanelScratch::Plan(*plan, rows)) {
  if (quantizes_inner_) {
    quantized_inner_ = QuantizedScratch::Plan(*plan, rows, down.cols);
  } else {
    inner_ = plan->Shared<float>(rows * PaddedStride(down.cols));
  }
}

// Where the inner activations go.
ProductRows GatedFfn::InnerRows(const CpuContext& context, uint32_t rows, uint64_t ffn) const {
  ProductRows inner;
  inner.rows = rows;
  if (quantizes_inner_) {
    inner.q = quantized_inner_.at(context.scratch, rows, ffn);
  } else {
    inner.x = inner_.at(context.scratch);
    inner.stride = PaddedStride(ffn);
  }
  return inner;
}

void GatedFfn::RunInner(const CpuContext& context, const TiledMatrix& gate, const TiledMatrix& up,
                        const TiledMatrix& down, const ProductRows& x, const ProductRows& inner) const {
  static_assert(kTileRows == 32);         // the block of an int8 row
  ES_DCHECK(gate.rows % kTileRows == 0);  // since it is the reduction of the tiled `down`
  float* const floats = inner_.at(context.scratch);
  const PanelShares shares = InnerShares(context, gate), down_shares = ColumnShares(context, down.panels());
  context.pool->Run(shares.items(), [&](uint32_t thread, uint64_t panel) {
    float* const decoded = panels_.decoded.at(context.scratch, thread);
    float* const gate_tile = gate_tile_.at(context.scratch, thread);
    float* const up_tile = up_tile_.at(context.scratch, thread);
    PanelProduct(gate, panel, x, decoded, gate_tile, kTileRows, up.panel_if(panel));
    PanelProduct(up, panel, x, decoded, up_tile, kTileRows,
                 shares.Next(thread, panel, gate, 0, [&] { return down.panel_if(down_shares.First(thread)); }));
    if (!quantizes_inner_) {
      for (uint32_t r = 0; r < x.rows; ++r) {
        const size_t row = size_t{r} * kTileRows;
        SwiGlu(gate_tile + row, up_tile + row, kTileRows, floats + r * inner.stride + panel * kTileRows);
      }
      return;
    }
    SwiGlu(gate_tile, up_tile, size_t{x.rows} * kTileRows, gate_tile);
    const uint64_t block = panel * x.rows;
    const QuantizedRows column{x.rows, kTileRows, inner.q.values + block * kTileRows, inner.q.blocks + block};
    for (uint32_t r = 0; r < x.rows; ++r) QuantizeRow(gate_tile + size_t{r} * kTileRows, r, column);
  });
}

}  // namespace estream
