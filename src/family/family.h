// SPDX-License-Identifier: Apache-2.0
// The model families EStream knows, and the one way from a file's metadata to a plan.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "estream/status.h"
#include "family/model_plan.h"
#include "format/gguf.h"

namespace estream {

// Plans a model of `architecture` from metadata and a tensor table. A model file passes its own architecture and
// tensors; a pack passes those of its source.
//
// Errors: one sentence with the file and the key or tensor: Unsupported for an unknown architecture (naming the known
// ones), a model without experts, or a weight type; Corrupt for a missing key or tensor, a value out of range, or a
// wrong shape. Cost:   no weights are read.
Result<ModelPlan> PlanModel(const Gguf& file, std::string_view architecture, std::span<const GgufTensor> tensors);

// The same for a model file.
Result<ModelPlan> PlanModel(const Gguf& file);

// "olmoe, qwen3moe, ..." for messages.
std::string KnownArchitectures();

}  // namespace estream
