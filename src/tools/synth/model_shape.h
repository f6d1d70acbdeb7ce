// SPDX-License-Identifier: Apache-2.0
// The published sizes of the models that synthetic files imitate (their configuration files; paper, Table 1).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"

namespace estream {

enum class SynthFamily { kOlmoe, kLfm2moe, kDeepseek2, kQwen3moe, kMixtral };

struct ModelShape {
  std::string id;     // as users name it: "olmoe-1b-7b"
  std::string title;  // general.name
  SynthFamily family = SynthFamily::kOlmoe;

  uint32_t layers = 0;
  uint32_t dense_layers = 0;  // the first ones, without experts
  uint32_t hidden = 0;        // d
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t experts = 0;  // E
  uint32_t top_k = 0;    // k
  uint32_t ffn = 0;      // of one expert
  uint32_t dense_ffn = 0;
  uint32_t shared_experts = 0;
  uint32_t vocabulary = 0;
  uint32_t context = 0;
  float epsilon = 0;
  float rope_base = 0;

  std::vector<uint32_t> attention_layers;                           // kLfm2moe: the layers that are no convolution
  uint32_t kv_lora = 0, rope_dim = 0, nope_dim = 0, value_dim = 0;  // kDeepseek2

  // How unequal experts are: the distance between the router logits of the most and the least popular one, in standard
  // deviations of what the token contributes.
  float popularity_spread = 0;
  // What one layer adds to the mean square of a residual that begins at 1, measured at 512 tokens.
  float residual_growth = 0;
};

// Every model known, in the order of Table 1.
const std::vector<ModelShape>& AllModelShapes();

// Errors: InvalidArgument, naming the known ones.
Result<ModelShape> FindModelShape(std::string_view id);

// `shape` with its first `layers` layers. Errors: InvalidArgument when none of them is sparse or the model has fewer.
Result<ModelShape> WithLayers(ModelShape shape, uint32_t layers);

// The same blocks at a width of 256, with a vocabulary of 1,024: a few MB, for tests.
ModelShape Tiny(ModelShape shape);

}  // namespace estream
