// SPDX-License-Identifier: Apache-2.0
// Which weight format each tensor of a synthetic model has.
#pragma once

#include <cstdint>
#include <string_view>

#include "estream/status.h"
#include "format/weight_format.h"
#include "tools/synth/model_shape.h"

namespace estream {

enum class TypeMix {
  kQ4_0,    // the paper's (§5.1): Q4_0, with OLMoE's head in Q6_K and DeepSeek's latent projections in F16
  kQ4_K_M,  // what llama.cpp makes of "Q4_K_M"
};

// Errors: InvalidArgument, naming both.
Result<TypeMix> ParseTypeMix(std::string_view name);

// general.file_type of such a file.
uint32_t FileType(TypeMix mix);

enum class TensorRole {
  kEmbedding,
  kTiedEmbedding,  // also the head
  kHead,
  kKey,
  kValue,
  kAttentionOutput,
  kLatent,  // the projections into and out of the latent of MLA
  kDown,    // of experts, shared experts and dense layers
  kOther,
  kFloat,  // norms, routers, biases, convolution taps
};

// The format of a tensor with rows of `cols` values in layer `layer` (0 outside of layers). `value_index` counts the
// value projections before this one, out of `value_count`.
WeightFormat ChooseFormat(TypeMix mix, const ModelShape& shape, TensorRole role, uint64_t cols, uint32_t layer,
                          uint32_t value_index, uint32_t value_count);

}  // namespace estream
