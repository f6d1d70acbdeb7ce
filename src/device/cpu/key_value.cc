// SPDX-License-Identifier: Apache-2.0
// Online softmax over key blocks. Positions ascend, so the rows that a block has nothing for are always the first ones,
// and skipping them leaves one dense product.
#include "device/cpu/key_value.h"

#include <algorithm>
#include <limits>

#include "kernels/half_floats.h"
#include "kernels/matmul.h"

namespace estream {
namespace {

// Writes `n` values, a multiple of 16, in the stored precision; returns the end.
std::byte* StoreFloats(const KeyValue& kv, const float* values, size_t n, std::byte* out) {
  if (kv.half) {
    ToHalf(values, n, reinterpret_cast<uint16_t*>(out));
  } else {
    std::copy_n(values, n, reinterpret_cast<float*>(out));
  }
  return out + n * kv.element_bytes();
}

// A block of `n` stored values as floats: where they lie, or in `scratch`.
const float* Floats(const KeyValue& kv, const std::byte* block, size_t n, float* scratch) {
  if (!kv.half) return reinterpret_cast<const float*>(block);
  FromHalf(reinterpret_cast<const uint16_t*>(block), n, scratch);
  return scratch;
}

}  // namespace

KeyValuePlan::KeyValuePlan(uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim, uint32_t tokens, bool half,
                           ScratchPlan* plan) {
  shape_.kv_heads = kv_heads;
  shape_.key_dim = key_dim;
  shape_.value_dim = value_dim;
  shape_.half = half;
  const uint64_t positions = AlignUp(uint64_t{tokens}, kKeyBlock) * kv_heads;
  keys_ = plan->Shared<std::byte>(positions * key_dim * shape_.element_bytes());
  values_ = plan->Shared<std::byte>(positions * shape_.padded_dim() * shape_.element_bytes());
}

KeyValue KeyValuePlan::at(const CpuContext& context, uint32_t tokens) const {
  KeyValue kv = shape_;
  kv.blocks = static_cast<uint32_t>(CeilDiv(tokens, kKeyBlock));
  kv.keys = keys_.at(context.scratch);
  kv.values = values_.at(context.scratch);
  return kv;
}

void StoreKeys(const KeyValue& kv, uint32_t head, uint32_t block, const float* rows, size_t stride, uint32_t count,
               uint32_t first_dim, uint32_t dims) {
  std::byte* out = kv.key_block(head, block) + uint64_t{first_dim} * kKeyBlock * kv.element_bytes();
  float column[kKeyBlock] = {};
  for (uint32_t d = 0; d < dims; ++d) {
    for (uint32_t r = 0; r < count; ++r) column[r] = rows[r * stride + d];
    out = StoreFloats(kv, column, kKeyBlock, out);
  }
}

void StoreValues(const KeyValue& kv, uint32_t head, uint32_t block, const float* rows, size_t stride, uint32_t count) {
  std::byte* out = kv.value_block(head, block);
  const uint32_t whole = kv.value_dim / 16 * 16;
  for (uint32_t r = 0; r < count; ++r) {
    const float* const row = rows + r * stride;
    out = StoreFloats(kv, row, whole, out);
    if (whole == kv.value_dim) continue;
    float tail[16] = {};
    std::copy(row + whole, row + kv.value_dim, tail);
    out = StoreFloats(kv, tail, 16, out);
  }
  std::fill_n(out, (kKeyBlock - count) * kv.padded_dim() * kv.element_bytes(), std::byte{0});
}

void Attend(const KeyValue& kv, uint32_t kv_head, uint32_t group, const uint32_t* positions, uint32_t rows, float scale,
            const float* q, size_t q_stride, float* out, size_t out_stride, const AttendScratch& scratch) {
  const uint64_t dim = kv.key_dim, width = kv.padded_dim();
  std::fill_n(scratch.max, group * kQueryRows, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.sum, group * kQueryRows, 0.0f);
  std::fill_n(scratch.out, group * kQueryRows * width, 0.0f);

  for (uint32_t block = 0; block * kKeyBlock <= positions[rows - 1]; ++block) {
    const uint32_t first_key = block * kKeyBlock;
    const auto skip = static_cast<uint32_t>(std::lower_bound(positions, positions + rows, first_key) - positions);
    const uint32_t seeing = rows - skip;
    uint32_t visible[kQueryRows];
    for (uint32_t i = 0; i < seeing; ++i) visible[i] = std::min(kKeyBlock, positions[skip + i] - first_key + 1);
    const float* const keys = Floats(kv, kv.key_block(kv_head, block), dim * kKeyBlock, scratch.keys);
    const float* const values = Floats(kv, kv.value_block(kv_head, block), width * kKeyBlock, scratch.values);

    for (uint32_t head = 0; head < group; ++head) {
      const uint64_t place = uint64_t{head} * kQueryRows + skip;
      float* const sums = scratch.out + place * width;
      MatMul(q + skip * q_stride + head * dim, q_stride, seeing, keys, kKeyBlock, kKeyBlock, dim, scratch.scores,
             kKeyBlock, /*accumulate=*/false);
      SoftmaxBlock(scratch.scores, seeing, visible, scale, scratch.max + place, scratch.sum + place, sums, width,
                   width);
      MatMul(scratch.scores, kKeyBlock, seeing, values, width, width, kKeyBlock, sums, width,
             /*accumulate=*/true);
    }
  }

  for (uint32_t head = 0; head < group; ++head) {
    for (uint32_t r = 0; r < rows; ++r) {
      const uint64_t place = uint64_t{head} * kQueryRows + r;
      const float* const sums = scratch.out + place * width;
      float* const row = out + r * out_stride + uint64_t{head} * kv.value_dim;
      for (uint64_t d = 0; d < kv.value_dim; ++d) row[d] = sums[d] / scratch.sum[place];
    }
  }
}

}  // namespace estream
