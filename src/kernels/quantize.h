// SPDX-License-Identifier: Apache-2.0
// Activations as int8 in blocks of 32, in the order in which integer matrix products read them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace estream {

// What a product needs to know of one block beside its 32 values q: x ≈ scale * q. Pair sums are two 16-bit sums of q
// each: in the low half of those with index % 4 < 2, in the high half of the others.
struct ActivationBlock {
  float scale;               // max |x| / 127
  float scaled_sum;          // scale * sum(q), rounded once
  int32_t pair_sums;         // of all 32
  int32_t first_pair_sums;   // of the first 16
  int32_t second_pair_sums;  // of the last 16
};
static_assert(sizeof(ActivationBlock) == 20);

// `rows` rows of `cols` activations, block by block: the rows of one block of 32 columns lie side by side, so that a
// kernel that stays on a tile of weights walks through memory. Does not own its memory.
struct QuantizedRows {
  uint32_t rows = 0;
  uint64_t cols = 0;                  // a multiple of 32
  int8_t* values = nullptr;           // [cols / 32][rows][32], aligned to 4
  ActivationBlock* blocks = nullptr;  // [cols / 32][rows]
};

// Bytes of values and of blocks. Pre: sizes are sane.
constexpr uint64_t QuantizedValueBytes(uint32_t rows, uint64_t cols) { return rows * cols; }
constexpr uint64_t QuantizedBlockBytes(uint32_t rows, uint64_t cols) {
  return rows * (cols / 32) * sizeof(ActivationBlock);
}

// Row `row` of `out` = x[out.cols], each block on its own: q = round(x * (127 / max |x|)), ties to even, in [-127,
// 127].
//
// A block below 2^-100 becomes zero; one with a NaN or an infinity gets a scale that is not finite, so that neither is
// lost. The same bits on every target.
//
// Threads: different rows at once.
// Cost:    no allocation.
void QuantizeRow(const float* x, uint32_t row, const QuantizedRows& out);

}  // namespace estream
