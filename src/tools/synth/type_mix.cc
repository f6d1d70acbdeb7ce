// SPDX-License-Identifier: Apache-2.0
// The rules of both mixes.
#include "tools/synth/type_mix.h"

#include <fmt/format.h>

#include "format/quote.h"

namespace estream {
namespace {

// llama.cpp gives a finer format to the first and the last eighth of the layers, and to every third between.
bool UsesMoreBits(uint32_t index, uint32_t count) {
  return index < count / 8 || index >= 7 * count / 8 || (index - count / 8) % 3 == 2;
}

// Models with 8 experts are few enough in attention weights that llama.cpp keeps them finer.
constexpr uint32_t kFewExperts = 8;

WeightFormat PaperFormat(const ModelShape& shape, TensorRole role) {
  switch (role) {
    case TensorRole::kFloat:
      return WeightFormat::kF32;
    case TensorRole::kLatent:
      return WeightFormat::kF16;
    case TensorRole::kHead:
      return shape.family == SynthFamily::kOlmoe ? WeightFormat::kQ6_K : WeightFormat::kQ4_0;
    case TensorRole::kKey:
    case TensorRole::kValue:
      return shape.experts == kFewExperts ? WeightFormat::kQ8_0 : WeightFormat::kQ4_0;
    default:
      return WeightFormat::kQ4_0;
  }
}

WeightFormat MixedFormat(const ModelShape& shape, TensorRole role, uint32_t layer, uint32_t value_index,
                         uint32_t value_count) {
  const bool few = shape.experts == kFewExperts;
  switch (role) {
    case TensorRole::kFloat:
      return WeightFormat::kF32;
    case TensorRole::kHead:
    case TensorRole::kTiedEmbedding:
      return WeightFormat::kQ6_K;
    case TensorRole::kKey:
      return few ? WeightFormat::kQ8_0 : WeightFormat::kQ4_K;
    case TensorRole::kValue:
      if (few) return WeightFormat::kQ8_0;
      return UsesMoreBits(value_index, value_count) ? WeightFormat::kQ6_K : WeightFormat::kQ4_K;
    case TensorRole::kAttentionOutput:
      return few ? WeightFormat::kQ5_K : WeightFormat::kQ4_K;
    case TensorRole::kDown:
      return UsesMoreBits(layer, shape.layers) ? WeightFormat::kQ6_K : WeightFormat::kQ4_K;
    default:
      return WeightFormat::kQ4_K;
  }
}

// Rows that are no multiple of 256 take the format that llama.cpp falls back to.
WeightFormat WithoutSuperBlocks(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_K:
      return WeightFormat::kQ5_0;
    case WeightFormat::kQ5_K:
      return WeightFormat::kQ5_1;
    case WeightFormat::kQ6_K:
      return WeightFormat::kQ8_0;
    default:
      return format;
  }
}

}  // namespace

Result<TypeMix> ParseTypeMix(std::string_view name) {
  if (name == "q4_0") return TypeMix::kQ4_0;
  if (name == "q4_k_m") return TypeMix::kQ4_K_M;
  return Status::InvalidArgument(fmt::format("unknown type {}; known: q4_0, q4_k_m", Quoted(name)));
}

uint32_t FileType(TypeMix mix) { return mix == TypeMix::kQ4_0 ? 2 : 15; }

WeightFormat ChooseFormat(TypeMix mix, const ModelShape& shape, TensorRole role, uint64_t cols, uint32_t layer,
                          uint32_t value_index, uint32_t value_count) {
  const WeightFormat format =
      mix == TypeMix::kQ4_0 ? PaperFormat(shape, role) : MixedFormat(shape, role, layer, value_index, value_count);
  return cols % Traits(format).block_elements == 0 ? format : WithoutSuperBlocks(format);
}

}  // namespace estream
