// SPDX-License-Identifier: Apache-2.0
// W_d (SiLU(W_g x) ⊙ W_u x) of rows, whatever they are: routed, shared or dense.                             (eq. 1)
#pragma once

#include "device/cpu/panel_product.h"

namespace estream {

// Phase 1 splits the FFN's panels over the threads, phase 2 the panels of the output: a value of the output belongs to
// one thread, so additions neither collide nor change their order.
class GatedFfn {
 public:
  GatedFfn() = default;
  // For up to `rows` <= kRowBlock rows a call; `down` [hidden, ffn].
  GatedFfn(const MatrixSpec& down, uint32_t rows, Activations activations, ScratchPlan* plan);

  //   x          [rows, hidden] in the forms that gate and up read
  //   next_gate  where the gate matrix of the next call is, or null if none comes or it is not known: fetched meanwhile
  //   body       (columns): moves some of the outputs to where they belong, see ForEachColumns
  template <class Body>
  void Run(const CpuContext& context, const TiledMatrix& gate, const TiledMatrix& up, const TiledMatrix& down,
           const ProductRows& x, const std::byte* next_gate, const Body& body) const {
    const ProductRows inner = InnerRows(context, x.rows, down.cols);
    RunInner(context, gate, up, down, x, inner);
    TiledMatrix next = gate;
    next.data = next_gate;
    ForEachColumns(context, panels_, down, 0, down.panels(), inner, body,
                   [&](uint32_t thread) { return next.panel_if(InnerShares(context, next).First(thread)); });
  }

 private:
  static PanelShares InnerShares(const CpuContext& context, const TiledMatrix& gate) {
    return {context.pool->threads(), gate.panels(), /*most_at_once=*/1};
  }
  ProductRows InnerRows(const CpuContext& context, uint32_t rows, uint64_t ffn) const;
  void RunInner(const CpuContext& context, const TiledMatrix& gate, const TiledMatrix& up, const TiledMatrix& down,
                const ProductRows& x, const ProductRows& inner) const;

  bool quantizes_inner_ = false;
  ScratchArray<float> inner_;         // SiLU(W_g x) ⊙ W_u x, as floats
  QuantizedScratch quantized_inner_;  // or as int8
  ScratchArray<float> gate_tile_;     // [rows, 32]
  ScratchArray<float> up_tile_;       // [rows, 32]
  PanelScratch panels_;
};

}  // namespace estream
