// SPDX-License-Identifier: Apache-2.0
// Rows of activations as matrix products read them: floats, and an int8 copy for the weights that take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "device/cpu/cpu_context.h"
#include "device/cpu/scratch.h"
#include "device/device.h"
#include "graph/refs.h"
#include "kernels/matmul_q8.h"
#include "kernels/quantize.h"

namespace estream {

// Whether products with `w` read int8 rows; else they read floats.
inline bool TakesQ8(Activations activations, const MatrixSpec& w) {
  return activations == Activations::kQ8 && HasQ8(w.format);
}

// Operands of products. What none of the matrices reads may be missing.
struct ProductRows {
  const float* x = nullptr;  // [rows, cols], rows `stride` floats apart
  size_t stride = 0;
  uint32_t rows = 0;
  QuantizedRows q;  // the same rows; `values` null: all products read floats
};

// Scratch for up to `rows` quantised rows.
struct QuantizedScratch {
  static QuantizedScratch Plan(ScratchPlan& plan, uint32_t rows, uint64_t cols);
  QuantizedRows at(std::byte* scratch, uint32_t rows, uint64_t cols) const;

  ScratchArray<int8_t> values;
  ScratchArray<ActivationBlock> blocks;
};

// The operand of one or more matrices with the same reduction, quantised once for all of them.
class ProductInput {
 public:
  ProductInput() = default;
  // For up to `rows` rows a call.
  ProductInput(Activations activations, std::initializer_list<MatrixSpec> matrices, uint32_t rows, ScratchPlan* plan);

  //   x        [rows, cols] f32, rows `stride` floats apart; has to outlive the result
  //   returns  valid until the next call
  ProductRows Take(const CpuContext& context, const float* x, size_t stride, uint32_t rows) const;

 private:
  bool quantizes_ = false;
  uint64_t cols_ = 0;
  QuantizedScratch scratch_;
};

}  // namespace estream
