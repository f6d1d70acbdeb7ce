// SPDX-License-Identifier: Apache-2.0
// One function per kind of block; the first contradiction found is the one reported.
#include "device/spec_check.h"

#include <fmt/format.h>

#include "base/macros.h"
#include "format/tile.h"

namespace estream {
namespace {

constexpr uint64_t kMaxDimension = uint64_t{1} << 24;
constexpr uint64_t kMaxOffset = uint64_t{1} << 48;

Status CheckDimension(const char* what, uint64_t value) {
  if (value == 0) return Status::InvalidArgument(fmt::format("{} is 0", what));
  if (value > kMaxDimension) {
    return Status::Unsupported(fmt::format("{} is {}, at most {} is supported", what, value, kMaxDimension));
  }
  return Status::Ok();
}

Status CheckCapacity(const Capacity& capacity) {
  if (capacity.tokens > kMaxDimension || capacity.routes > kMaxDimension) {
    return Status::Unsupported(fmt::format("a capacity of {} tokens and {} routes, at most {} is supported",
                                           capacity.tokens, capacity.routes, kMaxDimension));
  }
  return Status::Ok();
}

Status CheckOffset(const char* what, uint64_t offset) {
  if (offset > kMaxOffset || offset % sizeof(float) != 0) {
    return Status::InvalidArgument(
        fmt::format("{} at offset {}, expected a multiple of {} up to {}", what, offset, sizeof(float), kMaxOffset));
  }
  return Status::Ok();
}

Status CheckMatrix(const char* what, const MatrixSpec& m, uint64_t rows, uint64_t cols) {
  if (m.rows != rows || m.cols != cols) {
    return Status::InvalidArgument(
        fmt::format("the {} matrix is [{}, {}], expected [{}, {}]", what, m.rows, m.cols, rows, cols));
  }
  if (!CanTile(m.format, m.cols)) {
    return Status::Unsupported(fmt::format("the {} matrix has rows of {} {} values, which cannot be tiled", what,
                                           m.cols, Traits(m.format).name));
  }
  return CheckOffset(what, m.offset);
}

Status CheckVector(const char* what, const VectorSpec& v, uint64_t count) {
  if (v.count != count)
    return Status::InvalidArgument(fmt::format("{} has {} values, expected {}", what, v.count, count));
  return CheckOffset(what, v.offset);
}

Status Check(const EmbeddingSpec& spec) {
  ES_RETURN_IF_ERROR(CheckDimension("hidden", spec.hidden));
  if (spec.hidden % Traits(spec.format).block_elements != 0) {
    return Status::Unsupported(fmt::format("embedding rows of {} values are no whole number of {} blocks", spec.hidden,
                                           Traits(spec.format).name));
  }
  return Status::Ok();
}

Status Check(const NormSpec& spec) {
  ES_RETURN_IF_ERROR(CheckDimension("hidden", spec.hidden));
  return CheckVector("norm", spec.norm, spec.hidden);
}

Status Check(const LinearSpec& spec) {
  ES_RETURN_IF_ERROR(CheckDimension("rows", spec.matrix.rows));
  ES_RETURN_IF_ERROR(CheckDimension("cols", spec.matrix.cols));
  return CheckMatrix("linear", spec.matrix, spec.matrix.rows, spec.matrix.cols);
}

Status CheckHeads(const AttentionSpec& spec) {
  ES_RETURN_IF_ERROR(CheckDimension("hidden", spec.hidden));
  ES_RETURN_IF_ERROR(CheckDimension("heads", spec.heads));
  ES_RETURN_IF_ERROR(CheckDimension("kv_heads", spec.kv_heads));
  ES_RETURN_IF_ERROR(CheckDimension("head_dim", spec.head_dim));
  ES_RETURN_IF_ERROR(CheckDimension("heads times head_dim", uint64_t{spec.heads} * spec.head_dim));
  if (spec.heads % spec.kv_heads != 0) {
    return Status::InvalidArgument(fmt::format("{} heads cannot share {} kv_heads evenly", spec.heads, spec.kv_heads));
  }
  if (spec.rope.dims % 2 != 0 || spec.rope.dims > spec.head_dim) {
    return Status::InvalidArgument(
        fmt::format("rope.dims is {}, expected an even number up to head_dim {}", spec.rope.dims, spec.head_dim));
  }
  return Status::Ok();
}

Status CheckQkNorm(const AttentionSpec& spec, uint64_t q_width, uint64_t kv_width) {
  switch (spec.qk_norm) {
    case QkNorm::kNone:
      return Status::Ok();
    case QkNorm::kFull:
      ES_RETURN_IF_ERROR(CheckVector("q_norm", spec.q_norm, q_width));
      return CheckVector("k_norm", spec.k_norm, kv_width);
    case QkNorm::kPerHead:
      ES_RETURN_IF_ERROR(CheckVector("q_norm", spec.q_norm, spec.head_dim));
      return CheckVector("k_norm", spec.k_norm, spec.head_dim);
  }
  return Status::InvalidArgument(fmt::format("unknown qk_norm {}", static_cast<uint32_t>(spec.qk_norm)));
}

Status Check(const AttentionSpec& spec) {
  ES_RETURN_IF_ERROR(CheckHeads(spec));
  const uint64_t q_width = uint64_t{spec.heads} * spec.head_dim;
  const uint64_t kv_width = uint64_t{spec.kv_heads} * spec.head_dim;
  ES_RETURN_IF_ERROR(CheckVector("norm", spec.norm, spec.hidden));
  ES_RETURN_IF_ERROR(CheckQkNorm(spec, q_width, kv_width));
  ES_RETURN_IF_ERROR(CheckMatrix("q", spec.q, q_width, spec.hidden));
  ES_RETURN_IF_ERROR(CheckMatrix("k", spec.k, kv_width, spec.hidden));
  ES_RETURN_IF_ERROR(CheckMatrix("v", spec.v, kv_width, spec.hidden));
  return CheckMatrix("output", spec.output, spec.hidden, q_width);
}

Status Check(const RouterSpec& spec) {
  ES_RETURN_IF_ERROR(CheckDimension("hidden", spec.hidden));
  ES_RETURN_IF_ERROR(CheckDimension("experts times hidden", uint64_t{spec.experts} * spec.hidden));
  if (spec.top_k == 0 || spec.top_k > spec.experts) {
    return Status::InvalidArgument(fmt::format("top_k is {}, expected 1 to {} experts", spec.top_k, spec.experts));
  }
  ES_RETURN_IF_ERROR(CheckVector("norm", spec.norm, spec.hidden));
  ES_RETURN_IF_ERROR(CheckVector("router", spec.router, uint64_t{spec.experts} * spec.hidden));
  return spec.bias.count == 0 ? Status::Ok() : CheckVector("bias", spec.bias, spec.experts);
}

Status Check(const FfnSpec& spec) {
  ES_RETURN_IF_ERROR(CheckDimension("hidden", spec.hidden));
  ES_RETURN_IF_ERROR(CheckDimension("ffn", spec.ffn));
  ES_RETURN_IF_ERROR(CheckMatrix("gate", spec.gate, spec.ffn, spec.hidden));
  ES_RETURN_IF_ERROR(CheckMatrix("up", spec.up, spec.ffn, spec.hidden));
  return CheckMatrix("down", spec.down, spec.hidden, spec.ffn);
}

Status Check(const ShortConvSpec& spec) {
  ES_RETURN_IF_ERROR(CheckDimension("hidden", spec.hidden));
  ES_RETURN_IF_ERROR(CheckDimension("taps", spec.taps));
  ES_RETURN_IF_ERROR(CheckDimension("taps times hidden", uint64_t{spec.taps} * spec.hidden));
  ES_RETURN_IF_ERROR(CheckVector("norm", spec.norm, spec.hidden));
  ES_RETURN_IF_ERROR(CheckVector("conv", spec.conv, uint64_t{spec.taps} * spec.hidden));
  ES_RETURN_IF_ERROR(CheckMatrix("in_proj", spec.in_proj, 3 * uint64_t{spec.hidden}, spec.hidden));
  return CheckMatrix("out_proj", spec.out_proj, spec.hidden, spec.hidden);
}

Status CheckLatentSizes(const LatentAttentionSpec& spec) {
  ES_RETURN_IF_ERROR(CheckDimension("hidden", spec.hidden));
  ES_RETURN_IF_ERROR(CheckDimension("heads", spec.heads));
  ES_RETURN_IF_ERROR(CheckDimension("key_dim", spec.key_dim));
  ES_RETURN_IF_ERROR(CheckDimension("value_dim", spec.value_dim));
  ES_RETURN_IF_ERROR(CheckDimension("latent", spec.latent));
  ES_RETURN_IF_ERROR(CheckDimension("heads times key_dim", uint64_t{spec.heads} * spec.key_dim));
  ES_RETURN_IF_ERROR(CheckDimension("heads times value_dim", uint64_t{spec.heads} * spec.value_dim));
  ES_RETURN_IF_ERROR(CheckDimension("heads times latent", uint64_t{spec.heads} * spec.latent));
  if (spec.rope.dims % 2 != 0 || spec.rope.dims >= spec.key_dim) {
    return Status::InvalidArgument(
        fmt::format("rope.dims is {}, expected an even number below key_dim {}", spec.rope.dims, spec.key_dim));
  }
  if (spec.split != 0 && spec.latent % kTileRows != 0) {
    return Status::Unsupported(
        fmt::format("split keys need a latent width that is a multiple of {}, found {}", kTileRows, spec.latent));
  }
  return Status::Ok();
}

Status Check(const LatentAttentionSpec& spec) {
  ES_RETURN_IF_ERROR(CheckLatentSizes(spec));
  const uint64_t heads = spec.heads;
  ES_RETURN_IF_ERROR(CheckVector("norm", spec.norm, spec.hidden));
  ES_RETURN_IF_ERROR(CheckVector("latent_norm", spec.latent_norm, spec.latent));
  ES_RETURN_IF_ERROR(CheckMatrix("q", spec.q, heads * spec.key_dim, spec.hidden));
  ES_RETURN_IF_ERROR(CheckMatrix("kv_a", spec.kv_a, uint64_t{spec.latent} + spec.rope.dims, spec.hidden));
  if (spec.split != 0) {
    ES_RETURN_IF_ERROR(CheckMatrix("k_b", spec.k_b, heads * spec.latent, spec.nope_dim()));
    ES_RETURN_IF_ERROR(CheckMatrix("v_b", spec.v_b, heads * spec.value_dim, spec.latent));
  } else {
    ES_RETURN_IF_ERROR(CheckMatrix("kv_b", spec.kv_b, heads * (spec.nope_dim() + spec.value_dim), spec.latent));
  }
  return CheckMatrix("output", spec.output, spec.hidden, heads * spec.value_dim);
}

}  // namespace

Status CheckSpec(const ExpertSpec& spec, const Capacity& capacity) {
  ES_RETURN_IF_ERROR(CheckCapacity(capacity));
  ES_RETURN_IF_ERROR(CheckDimension("hidden", spec.hidden));
  ES_RETURN_IF_ERROR(CheckDimension("ffn", spec.ffn));
  ES_RETURN_IF_ERROR(CheckMatrix("gate", spec.gate, spec.ffn, spec.hidden));
  ES_RETURN_IF_ERROR(CheckMatrix("up", spec.up, spec.ffn, spec.hidden));
  ES_RETURN_IF_ERROR(CheckMatrix("down", spec.down, spec.hidden, spec.ffn));
  for (const MatrixSpec* m : {&spec.gate, &spec.up, &spec.down}) {
    if (PartEnd(*m) > spec.record_bytes) {
      return Status::InvalidArgument(
          fmt::format("a matrix ends at byte {} of a record of {} bytes", PartEnd(*m), spec.record_bytes));
    }
  }
  return Status::Ok();
}

Status CheckSpec(const BlockSpec& spec, const Capacity& capacity) {
  ES_RETURN_IF_ERROR(CheckCapacity(capacity));
  return std::visit([](const auto& s) { return Check(s); }, spec);
}

uint64_t PartEnd(const MatrixSpec& matrix) {
  return matrix.offset + TiledBytes(matrix.format, matrix.rows, matrix.cols);
}

uint64_t PartEnd(const VectorSpec& vector) { return vector.offset + uint64_t{vector.count} * sizeof(float); }

}  // namespace estream
