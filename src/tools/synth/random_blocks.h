// SPDX-License-Identifier: Apache-2.0
// Random weights made directly in their stored form: a block is a function of (key, index), so that any of them can be
// made alone and several GB/s come from one core.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/weight_format.h"

namespace estream {

// The distribution of one tensor's values.
struct BlockRecipe {
  WeightFormat format = WeightFormat::kF32;
  uint64_t key = 0;            // see RandomKey
  float deviation = 1;         // root mean square of the values
  uint64_t row_blocks = 1;     // blocks a row
  uint64_t raised_blocks = 0;  // the first ones of each row hold positive values only, with kRaisedMean as their mean
};

// The mean of values in raised blocks, in deviations; that of Q4_0 and the K formats differs by less than a tenth.
inline constexpr float kRaisedMean = 0.8f;

// Writes blocks [first, first + count) of the tensor to `out`, [count * block_bytes]. Mean 0 (but for raised blocks),
// no NaN, no infinity, no zero scale; signs of scales vary, so that no row has a mean of its own.
//
// Pre: a format of MakesBlocks(); `deviation` between 1e-4 and 100.
void FillBlocks(const BlockRecipe& recipe, uint64_t first, uint64_t count, std::byte* out);

// Whether FillBlocks knows `format`; raised blocks exist for Q4_0, Q4_K and Q6_K.
bool MakesBlocks(WeightFormat format);

}  // namespace estream
