// SPDX-License-Identifier: Apache-2.0
// Exact dequantisation of the formats with blocks of 256 values and two levels of scales.
#pragma once

#include <cstddef>
#include <cstdint>

namespace estream {

inline constexpr uint64_t kSuperBlock = 256;
inline constexpr int kSubBlocks = 8;     // of a super-block, Q4_K and Q5_K
inline constexpr int kSubElements = 32;  // values a sub-block

// The integer scales and mins of the sub-blocks of Q4_K and Q5_K.
struct SixBitScales {
  uint8_t scale[kSubBlocks];
  uint8_t min[kSubBlocks];
};

// 8 scales and 8 mins of 6 bits from 12 bytes: the first four of each are the low 6 bits of bytes 0-3 and 4-7; of the
// others, the low 4 bits are the nibbles of bytes 8-11 and the high 2 the top bits of bytes 0-3 (scales), 4-7 (mins).
SixBitScales UnpackSixBitScales(const std::byte* packed);

// dst[256 * blocks] = the values of `blocks` consecutive blocks.
void DequantizeQ4K(const std::byte* src, float* dst, uint64_t blocks);
void DequantizeQ5K(const std::byte* src, float* dst, uint64_t blocks);
void DequantizeQ6K(const std::byte* src, float* dst, uint64_t blocks);

}  // namespace estream
