// SPDX-License-Identifier: Apache-2.0
// Rows times tiled matrix, by panels of 32 outputs: the one way in which this device multiplies weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

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
  // The same with its size; empty if there is no such panel or no matrix.
  std::span<const std::byte> panel_if(uint64_t i) const {
    if (data == nullptr || i >= panels()) return {};
    return {panel(i), panel_bytes};
  }

  WeightFormat format;
  uint32_t rows;
  uint32_t cols;
  uint64_t panel_bytes;
  const std::byte* data;  // null: none
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
//   next     the panel that this thread is likely to multiply next, or empty: fetched meanwhile by int8 products, which
//            are fast enough to wait for memory
void PanelProduct(const TiledMatrix& w, uint64_t panel, const ProductRows& x, float* decoded, float* out,
                  size_t out_stride, std::span<const std::byte> next);

// Some columns of a product, all rows of them.
struct ProductColumns {
  uint64_t first;  // matrix row
  uint32_t count;
  const float* outputs;

  const float* row(uint32_t r) const { return outputs + r * PanelScratch::kStride; }
};

// How a loop over panels is shared out: items of some panels, and for each thread a share of neighbouring items.
class PanelShares {
 public:
  // Items of up to `most_at_once` panels, but at least four a thread, so that threads end together.
  PanelShares(uint32_t threads, uint64_t panels, uint64_t most_at_once)
      : threads_(threads),
        at_once_(std::clamp<uint64_t>(panels / (uint64_t{4} * threads), 1, most_at_once)),
        items_(CeilDiv(panels, at_once_)) {}

  uint64_t at_once() const { return at_once_; }
  uint64_t items() const { return items_; }

  // The first panel that the thread multiplies.
  uint64_t First(uint32_t thread) const { return at_once_ * ShareBegin(thread); }

  // Panel of w after those of `item`, for a thread that goes through its share; after its end what `after()` says.
  // Empty in another's share: who helps there goes backwards, and may be done any time.
  template <class After>
  std::span<const std::byte> Next(uint32_t thread, uint64_t item, const TiledMatrix& w, uint64_t first_panel,
                                  const After& after) const {
    if (item < ShareBegin(thread) || item >= ShareBegin(thread + 1)) return {};
    if (item + 1 == ShareBegin(thread + 1)) return after();
    return w.panel_if(first_panel + (item + 1) * at_once_);
  }

 private:
  uint64_t ShareBegin(uint32_t thread) const { return ThreadPool::ShareBegin(items_, thread, threads_); }

  uint32_t threads_;
  uint64_t at_once_;
  uint64_t items_;
};

// The shares of ForEachColumns.
inline PanelShares ColumnShares(const CpuContext& context, uint64_t panels) {
  return {context.pool->threads(), panels, kPanelsAtOnce};
}

struct NoPanel {
  std::span<const std::byte> operator()(uint32_t) const { return {}; }
};

// Calls body(columns) for all outputs of panels [first_panel, first_panel + panel_count) of x Wᵀ, some panels at once,
// in parallel. The body moves the outputs to where they belong; outputs beyond w.rows are left out.
//
//   after  (thread): the panel that the thread multiplies next, after this product, or empty
template <class Body, class After = NoPanel>
void ForEachColumns(const CpuContext& context, const PanelScratch& scratch, const TiledMatrix& w, uint64_t first_panel,
                    uint64_t panel_count, const ProductRows& x, const Body& body, const After& after = {}) {
  const PanelShares shares = ColumnShares(context, panel_count);
  context.pool->Run(shares.items(), [&](uint32_t thread, uint64_t item) {
    float* const outputs = scratch.outputs.at(context.scratch, thread);
    const uint64_t first = item * shares.at_once(), count = std::min(shares.at_once(), panel_count - first);
    const auto next = shares.Next(thread, item, w, first_panel, [&] { return after(thread); });
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t panel = first_panel + first + i;
      PanelProduct(w, panel, x, scratch.decoded.at(context.scratch, thread), outputs + i * kTileRows,
                   PanelScratch::kStride, i + 1 < count ? w.panel_if(panel + 1) : next);
    }
    const uint64_t column = (first_panel + first) * kTileRows;
    body(ProductColumns{column, static_cast<uint32_t>(std::min(count * kTileRows, w.rows - column)), outputs});
  });
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
