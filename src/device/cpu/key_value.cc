// SPDX-License-Identifier: Apache-2.0
// Online softmax over key blocks. Positions ascend, so the rows that a block has nothing for are always the first ones,
// and skipping them leaves one dense product.
#include "device/cpu/key_value.h"

#include <algorithm>
#include <limits>

#include "kernels/matmul.h"

namespace estream {

void StoreKeys(const KeyValue& kv, uint32_t head, uint32_t block, const float* rows, size_t stride, uint32_t count,
               uint32_t first_dim, uint32_t dims) {
  float* out = kv.key_block(head, block) + uint64_t{first_dim} * kKeyBlock;
  for (uint32_t d = 0; d < dims; ++d, out += kKeyBlock) {
    for (uint32_t r = 0; r < count; ++r) out[r] = rows[r * stride + d];
    std::fill(out + count, out + kKeyBlock, 0.0f);
  }
}

void StoreValues(const KeyValue& kv, uint32_t head, uint32_t block, const float* rows, size_t stride, uint32_t count) {
  float* out = kv.value_block(head, block);
  for (uint32_t r = 0; r < count; ++r, out += kv.padded_dim()) {
    float* const end = std::copy_n(rows + r * stride, kv.value_dim, out);
    std::fill(end, out + kv.padded_dim(), 0.0f);
  }
  std::fill_n(out, (kKeyBlock - count) * kv.padded_dim(), 0.0f);
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

    for (uint32_t head = 0; head < group; ++head) {
      const uint64_t place = uint64_t{head} * kQueryRows + skip;
      float* const sums = scratch.out + place * width;
      MatMul(q + skip * q_stride + head * dim, q_stride, seeing, kv.key_block(kv_head, block), kKeyBlock, kKeyBlock,
             dim, scratch.scores, kKeyBlock, /*accumulate=*/false);
      SoftmaxBlock(scratch.scores, seeing, visible, scale, scratch.max + place, scratch.sum + place, sums, width,
                   width);
      MatMul(scratch.scores, kKeyBlock, seeing, kv.value_block(kv_head, block), width, width, kKeyBlock, sums, width,
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
