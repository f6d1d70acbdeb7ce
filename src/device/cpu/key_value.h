// SPDX-License-Identifier: Apache-2.0
// Keys and values of one layer as attention reads them: cut into blocks of 64 positions, keys transposed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"
#include "device/cpu/cpu_context.h"
#include "device/cpu/scratch.h"
#include "kernels/attention.h"

namespace estream {

// Where the keys and values of a sequence lie.
//
//   keys    [kv_heads][blocks][key_dim][64]: a block is the right operand of q kᵀ
//   values  [kv_heads][blocks][64][padded_dim()]: a block is the right operand of p v
//
// Both hold f32, or binary16 with `half`; whoever reads them sees what is stored, so that a key is the same for its own
// token and for later ones.
//
// Positions beyond the last token and columns beyond value_dim are zero, so that a probability of zero adds nothing.
struct KeyValue {
  uint32_t kv_heads = 0;
  uint32_t key_dim = 0;
  uint32_t value_dim = 0;
  uint32_t blocks = 0;
  bool half = false;
  std::byte* keys = nullptr;
  std::byte* values = nullptr;

  static uint64_t PaddedDim(uint64_t value_dim) { return AlignUp(value_dim, 16); }
  uint64_t padded_dim() const { return PaddedDim(value_dim); }

  uint64_t element_bytes() const { return half ? sizeof(uint16_t) : sizeof(float); }
  std::byte* key_block(uint64_t head, uint64_t block) const {
    return keys + (head * blocks + block) * key_dim * kKeyBlock * element_bytes();
  }
  std::byte* value_block(uint64_t head, uint64_t block) const {
    return values + (head * blocks + block) * kKeyBlock * padded_dim() * element_bytes();
  }
};

// Scratch for the keys and values of up to `tokens` tokens.
class KeyValuePlan {
 public:
  KeyValuePlan() = default;
  KeyValuePlan(uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim, uint32_t tokens, bool half, ScratchPlan* plan);
  KeyValue at(const CpuContext& context, uint32_t tokens) const;

 private:
  KeyValue shape_;
  ScratchArray<std::byte> keys_;
  ScratchArray<std::byte> values_;
};

// Stores up to 64 projected rows as block `block` of a head and pads it with zeros.
//
//   rows    [count <= 64] rows `stride` floats apart; the head's values begin at each
//
// Keys may come in parts: values [first_dim, first_dim + dims) of the head.
void StoreKeys(const KeyValue& kv, uint32_t head, uint32_t block, const float* rows, size_t stride, uint32_t count,
               uint32_t first_dim, uint32_t dims);
void StoreValues(const KeyValue& kv, uint32_t head, uint32_t block, const float* rows, size_t stride, uint32_t count);

// Query rows handled together: enough for the matrix kernels, few enough for their scores to stay in the L1 cache.
inline constexpr uint32_t kQueryRows = 64;

// A thread's working memory for Attend.
struct AttendScratch {
  float* scores = nullptr;  // [kQueryRows, 64]
  float* out = nullptr;     // [heads a kv head, kQueryRows, padded_dim]
  float* max = nullptr;     // [heads a kv head, kQueryRows]
  float* sum = nullptr;     // [heads a kv head, kQueryRows]
  float* keys = nullptr;    // [key_dim, 64], for half keys
  float* values = nullptr;  // [64, padded_dim], for half values
};

// out = softmax(scale q kᵀ) v for the `group` query heads that share key/value head `kv_head`. The heads of a group
// take each key block in turn, so that it is loaded once.
//
//   q          [rows <= kQueryRows, group * key_dim] f32, rows q_stride floats apart
//   out        [rows, group * value_dim] f32, rows out_stride floats apart; may be q when the dims are equal
//   positions  [rows] ascending; row r sees keys 0..positions[r]
//
// Bits of a row depend on its position and nothing else: not on the rows beside it, nor on later tokens.
void Attend(const KeyValue& kv, uint32_t kv_head, uint32_t group, const uint32_t* positions, uint32_t rows, float scale,
            const float* q, size_t q_stride, float* out, size_t out_stride, const AttendScratch& scratch);

}  // namespace estream
