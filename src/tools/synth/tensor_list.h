// SPDX-License-Identifier: Apache-2.0
// The tensors of a synthetic model: names and shapes as llama.cpp writes them, and how each one's values are made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/synth/model_shape.h"
#include "tools/synth/random_blocks.h"
#include "tools/synth/type_mix.h"

namespace estream {

struct SynthTensor {
  std::string name;
  std::vector<uint64_t> dims;  // fastest first
  BlockRecipe recipe;
  float mean = 0;  // added to every value; F32 tensors only
  // Routers only: added to the values in the first raised_columns columns of row e.
  std::vector<float> row_offsets;
  uint64_t raised_columns = 0;

  uint64_t elements() const;
  bool is_expert() const;  // part of routed experts
};

// All tensors in file order.
//
// Values are chosen so that a pass stays finite and near 1 through all layers, every branch adds a fraction of the
// residual's size, attention looks at few tokens, and routing is broad but unequal: all embeddings share a mean in
// their first columns, from which router rows draw an offset of their own.
std::vector<SynthTensor> ListTensors(const ModelShape& shape, TypeMix mix, uint64_t seed);

}  // namespace estream
