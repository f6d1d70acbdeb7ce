// SPDX-License-Identifier: Apache-2.0
// Arrays of IEEE binary16 and back: how keys and values are kept in half the memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace estream {

// out[i] = x[i] rounded to the nearest binary16, ties to even: the bits of FloatToHalf (base/half.h) on every target.
//
//   x    [n] f32, n a multiple of 16
//   out  [n]
void ToHalf(const float* x, size_t n, uint16_t* out);

// out[i] = x[i], exact. n a multiple of 16.
void FromHalf(const uint16_t* x, size_t n, float* out);

}  // namespace estream
