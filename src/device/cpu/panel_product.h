// SPDX-License-Identifier: Apache-2.0
// Rows times tiled matrix, by panels of 32 outputs: the one way in which this device multiplies weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/cpu/cpu_context.h"
#include "device/cpu/product_rows.h"
#include "device/cpu/scratch.h"
#include "format/tile.h"
#include "graph/refs.h"
#include "kernels/activation.h"

namespace estream {

// Rows multiplied for one decoding of a panel. The more rows, the less decoding; but the rows themselves have to stay
// in the L2 cache (256 rows of 2048 values are 2 MiB as floats) and their scratch in the budget.
inline constexpr uint32_t kRowBlock = 256;

// Floats from one row of scratch to the next: one cache line more than the row, since rows a power of two apart would
// share a few cache sets and evict each other (worth a few per cent).
constexpr uint64_t PaddedStride(uint64_t cols) { return AlignUp(cols, 16) + 16; }

// A tiled matrix at an address.
struct TiledMatrix {
  TiledMatrix(const MatrixSpec& spec, const std::byte* record)
      : format(spec.format),
        rows(spec.rows),
        cols(spec.cols),
        panel_bytes(MakePanelLayout(spec.format, spec.cols).bytes),
        data(record + spec.offset) {}

  uint64_t panels() const { return CeilDiv(rows, kTileRows); }
  const std::byte* panel(uint64_t i) const { return data + i * panel_bytes; }
  // The same, or null if there is no such panel.
  const std::byte* panel_if(uint64_t i) const { return i < panels() ? panel(i) : nullptr; }

  WeightFormat format;
  uint32_t rows;
  uint32_t cols;
  uint64_t panel_bytes;
  const std::byte* data;
};

// Panels whose outputs are moved to where they belong at once: outputs of a row lie kilobytes apart from those of the
// next, and half a kilobyte of each costs little more than the 128 bytes of one panel. (Scattering experts' outputs
// took 4.8 % of a pass panel by panel.)
inline constexpr uint32_t kPanelsAtOnce = 4;

// What a thread needs to multiply: a part of a panel, decoded, and outputs before they go where they belong.
struct PanelScratch {
  // Pre: rows <= kRowBlock, the most that one product gets.
  static PanelScratch Plan(ScratchPlan& plan, uint32_t rows);
  static constexpr size_t kStride = PaddedStride(kPanelsAtOnce * kTileRows);

  ScratchArray<float> decoded;
  ScratchArray<float> outputs;  // [rows, 32 * kPanelsAtOnce], rows kStride apart
};

// out[r, n] = Σ_k x[r, k] W[32 * panel + n, k], in ascending k with one accumulator an output: the same bits for any
// number of rows. Int8 rows are read if there are any and the format has such products, else floats.
//
//   x        at most kRowBlock rows of w.cols
//   decoded  a thread's PanelScratch::decoded
//   out      [rows, 32] f32, rows out_stride floats apart, written
//   next     the panel that this thread is likely to multiply next, or null: fetched meanwhile
void PanelProduct(const TiledMatrix& w, uint64_t panel, const ProductRows& x, float* decoded, float* out,
                  size_t out_stride, const std::byte* next);

// Some columns of a product, all rows of them.
struct ProductColumns {
  uint64_t first;  // matrix row
  uint32_t count;
  const float* outputs;

  const float* row(uint32_t r) const { return outputs + r * PanelScratch::kStride; }
};

// Panels of an item of a loop over `panel_count`: at least four items a thread, so that threads end together.
inline uint64_t PanelsAtOnce(const CpuContext& context, uint64_t panel_count) {
  return std::clamp<uint64_t>(panel_count / (uint64_t{4} * context.pool->threads()), 1, kPanelsAtOnce);
}

struct NoPanel {
  const std::byte* operator()(uint32_t) const { return nullptr; }
};

// Calls body(columns) for all outputs of panels [first_panel, first_panel + panel_count) of x Wᵀ, some panels at once,
// in parallel. The body moves the outputs to where they belong; outputs beyond w.rows are left out.
//
//   after  (thread): the panel that the thread multiplies next, after this product, or null
template <class Body, class After = NoPanel>
void ForEachColumns(const CpuContext& context, const PanelScratch& scratch, const TiledMatrix& w, uint64_t first_panel,
                    uint64_t panel_count, const ProductRows& x, const Body& body, const After& after = {}) {
  const uint64_t at_once = PanelsAtOnce(context, panel_count), items = CeilDiv(panel_count, at_once);
  context.pool->Run(items, [&](uint32_t thread, uint64_t item) {
    float* const outputs = scratch.outputs.at(context.scratch, thread);
    const uint64_t first = item * at_once, count = std::min(at_once, panel_count - first);
    const bool is_last = item + 1 == context.pool->ShareBegin(items, thread + 1);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t panel = first_panel + first + i;
      PanelProduct(w, panel, x, scratch.decoded.at(context.scratch, thread), outputs + i * kTileRows,
                   PanelScratch::kStride, is_last && i + 1 == count ? after(thread) : w.panel_if(panel + 1));
    }
    const uint64_t column = (first_panel + first) * kTileRows;
    body(ProductColumns{column, static_cast<uint32_t>(std::min(count * kTileRows, w.rows - column)), outputs});
  });
}

// The first panel of w that the thread multiplies when all of them are.
inline const std::byte* FirstColumnsPanel(const CpuContext& context, const TiledMatrix& w, uint32_t thread) {
  const uint64_t at_once = PanelsAtOnce(context, w.panels());
  return w.panel_if(at_once * context.pool->ShareBegin(CeilDiv(w.panels(), at_once), thread));
}

// y = x Wᵀ.   y [x.rows, w.rows] f32, rows y_stride floats apart.
void Multiply(const CpuContext& context, const PanelScratch& scratch, const TiledMatrix& w, const ProductRows& x,
              float* y, size_t y_stride);

// out(r) = residual(r) + x Wᵀ, row pointers given by functions; out(r) may be residual(r).
template <class In, class Out>
void AddProduct(const CpuContext& context, const PanelScratch& scratch, const TiledMatrix& w, const ProductRows& x,
                const In& residual, const Out& out) {
  const TraceSpan part = context.Part("product");
  ForEachColumns(context, scratch, w, 0, w.panels(), x, [&](const ProductColumns& c) {
    for (uint32_t r = 0; r < x.rows; ++r) Add(residual(r) + c.first, c.row(r), c.count, out(r) + c.first);
  });
}

}  // namespace estream
