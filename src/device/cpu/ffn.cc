// SPDX-License-Identifier: Apache-2.0
// Rows in blocks, straight from the input: nothing to gather.
#include "device/cpu/ffn.h"

namespace estream {

Status FfnOp::Run(const CpuContext& context, const BoundBlockCall& call) const {
  const TiledMatrix gate(spec_.gate, call.weights), up(spec_.up, call.weights), down(spec_.down, call.weights);
  const uint64_t hidden = spec_.hidden;
  for (uint32_t first = 0; first < call.rows; first += kRowBlock) {
    const uint32_t rows = std::min(kRowBlock, call.rows - first);
    float* const out = call.out + first * hidden;
    const ProductRows x = input_.Take(context, call.in + first * hidden, hidden, rows);
    const std::byte* const next_gate = call.rows - first > kRowBlock ? gate.data : nullptr;
    ffn_.Run(context, gate, up, down, x, next_gate, [&](const ProductColumns& c) {
      for (uint32_t r = 0; r < rows; ++r) {
        float* const at = out + r * hidden + c.first;
        Add(at, c.row(r), c.count, at);
      }
    });
  }
  return Status::Ok();
}

}  // namespace estream
