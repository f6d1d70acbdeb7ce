// SPDX-License-Identifier: Apache-2.0
// Rounding float to binary16 without relying on the machine's own conversion.
#include "base/half.h"

namespace estream {

uint16_t FloatToHalf(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);   // NaN
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // >= 65536: infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14 halves are multiples of 2^-24: adding 0.5 makes the float's own rounding (unit 2^-24) do it.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  // Round to 10 mantissa bits, ties to even; a carry runs into the exponent, as it should.
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace estream
