// SPDX-License-Identifier: Apache-2.0
// Exact conversions between the 16-bit floats of weight files and float, in plain integer arithmetic.
#pragma once

#include <bit>
#include <cstdint>

namespace estream {

// IEEE binary16 -> float; exact, subnormals, infinities and NaNs included.
inline float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 31u;
  uint32_t mantissa = h & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24 is exact in float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// bfloat16 -> float; exact (the upper half of a float).
inline float Bf16ToFloat(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

// float -> IEEE binary16, round to nearest even.
uint16_t FloatToHalf(float f);

}  // namespace estream
