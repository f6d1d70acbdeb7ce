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
  // For up to `rows` <= kRowBlock rows a call.
  GatedFfn(uint32_t ffn, uint32_t rows, ScratchPlan* plan)
      : inner_(plan->Shared<float>(rows * PaddedStride(ffn))),
        gate_tile_(plan->PerThread<float>(uint64_t{rows} * kTileRows)),
        panels_(PanelScratch::Plan(*plan, rows)) {}

  //   x     [rows, hidden], x_stride floats apart
  //   body  (panel, tile): outputs [rows, 32] of columns 32 * panel, PanelColumns(down.rows, panel) of them real
  template <class Body>
  void Run(const CpuContext& context, const TiledMatrix& gate, const TiledMatrix& up, const TiledMatrix& down,
           const float* x, size_t x_stride, uint32_t rows, const Body& body) const {
    RunInner(context, gate, up, x, x_stride, rows);
    ForEachPanel(context, panels_, down, 0, down.panels(), inner_.at(context.scratch), PaddedStride(gate.rows), rows,
                 body);
  }

 private:
  void RunInner(const CpuContext& context, const TiledMatrix& gate, const TiledMatrix& up, const float* x,
                size_t x_stride, uint32_t rows) const;

  ScratchArray<float> inner_;  // SiLU(W_g x) ⊙ W_u x
  ScratchArray<float> gate_tile_;
  PanelScratch panels_;
};

}  // namespace estream
