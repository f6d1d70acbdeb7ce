// SPDX-License-Identifier: Apache-2.0
// Rows times tiled matrix, one panel of 32 outputs at a time: the one way in which this device multiplies weights.
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

  WeightFormat format;
  uint32_t rows;
  uint32_t cols;
  uint64_t panel_bytes;
  const std::byte* data;
};

// What a thread needs to multiply: a part of a panel, decoded, and outputs before they go where they belong.
struct PanelScratch {
  // Pre: rows <= kRowBlock, the most that one product gets.
  static PanelScratch Plan(ScratchPlan& plan, uint32_t rows);

  ScratchArray<float> decoded;
  ScratchArray<float> tile;  // [rows, 32]
};

// tile[r, n] = Σ_k x[r, k] W[32 * panel + n, k], in ascending k with one accumulator an output: the same bits for any
// number of rows. Int8 rows are read if there are any and the format has such products, else floats.
//
//   x        at most kRowBlock rows of w.cols
//   decoded  a thread's PanelScratch::decoded
//   tile     [rows, 32] f32, written
void PanelProduct(const TiledMatrix& w, uint64_t panel, const ProductRows& x, float* decoded, float* tile);

// Calls body(panel, tile) for panels [first_panel, first_panel + panel_count) of x Wᵀ, panels in parallel. The body
// moves the tile's values [rows, 32] to where they belong, w.rows - 32 * panel columns of them if those are fewer
// than 32.
template <class Body>
void ForEachPanel(const CpuContext& context, const PanelScratch& scratch, const TiledMatrix& w, uint64_t first_panel,
                  uint64_t panel_count, const ProductRows& x, const Body& body) {
  context.pool->Run(panel_count, [&](uint32_t thread, uint64_t item) {
    float* tile = scratch.tile.at(context.scratch, thread);
    const uint64_t panel = first_panel + item;
    PanelProduct(w, panel, x, scratch.decoded.at(context.scratch, thread), tile);
    body(panel, static_cast<const float*>(tile));
  });
}

// The columns that panel `panel` of a matrix with `rows` outputs really has.
constexpr uint32_t PanelColumns(uint64_t rows, uint64_t panel) {
  return static_cast<uint32_t>(std::min<uint64_t>(kTileRows, rows - panel * kTileRows));
}

// y = x Wᵀ.   y [x.rows, w.rows] f32, rows y_stride floats apart.
void Multiply(const CpuContext& context, const PanelScratch& scratch, const TiledMatrix& w, const ProductRows& x,
              float* y, size_t y_stride);

// out(r) = residual(r) + x Wᵀ, row pointers given by functions; out(r) may be residual(r).
template <class In, class Out>
void AddProduct(const CpuContext& context, const PanelScratch& scratch, const TiledMatrix& w, const ProductRows& x,
                const In& residual, const Out& out) {
  ForEachPanel(context, scratch, w, 0, w.panels(), x, [&](uint64_t panel, const float* tile) {
    const uint64_t column = panel * kTileRows;
    for (uint32_t r = 0; r < x.rows; ++r) {
      Add(residual(r) + column, tile + size_t{r} * kTileRows, PanelColumns(w.rows, panel), out(r) + column);
    }
  });
}

}  // namespace estream
