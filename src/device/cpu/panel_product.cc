// SPDX-License-Identifier: Apache-2.0
// For float rows a panel is decoded and multiplied in chunks of the reduction: 128 elements of 32 rows are 16 KiB as
// floats, half of a small L1 cache, which leaves the other half to activations and outputs.
#include "device/cpu/panel_product.h"

#include "kernels/decode_panel.h"
#include "kernels/matmul.h"

namespace estream {
namespace {

constexpr uint32_t kChunk = 128;

}  // namespace

PanelScratch PanelScratch::Plan(ScratchPlan& plan, uint32_t rows) {
  return {plan.PerThread<float>(kChunk * kTileRows), plan.PerThread<float>(rows * kStride)};
}

void PanelProduct(const TiledMatrix& w, uint64_t panel, const ProductRows& x, float* decoded, float* out,
                  size_t out_stride, std::span<const std::byte> next) {
  if (x.q.values != nullptr && HasQ8(w.format)) {
    return MatMulPanelQ8(w.format, w.panel(panel), x.q, 0, x.rows, out, out_stride, next);
  }
  for (uint32_t k = 0; k < w.cols; k += kChunk) {
    const uint32_t count = std::min(kChunk, w.cols - k);
    DecodePanelF32(w.format, w.panel(panel), w.cols, k, count, decoded);
    MatMulPanel(x.x + k, x.stride, x.rows, decoded, count, out, out_stride, /*accumulate=*/k > 0);
  }
}

void Multiply(const CpuContext& context, const PanelScratch& scratch, const TiledMatrix& w, const ProductRows& x,
              float* y, size_t y_stride) {
  const TraceSpan part = context.Part("product");
  ForEachColumns(context, scratch, w, 0, w.panels(), x, [&](const ProductColumns& c) {
    for (uint32_t r = 0; r < x.rows; ++r) std::copy_n(c.row(r), c.count, y + r * y_stride + c.first);
  });
}

}  // namespace estream
