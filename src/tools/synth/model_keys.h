// SPDX-License-Identifier: Apache-2.0
// The metadata of a synthetic model, with the keys that llama.cpp writes for its architecture.
#pragma once

#include <cstdint>

#include "format/gguf_writer.h"
#include "tools/synth/model_shape.h"
#include "tools/synth/type_mix.h"

namespace estream {

// Sets general.* and the architecture's keys; not the tokenizer's.
void SetModelKeys(const ModelShape& shape, TypeMix mix, uint64_t seed, GgufWriter* writer);

}  // namespace estream
