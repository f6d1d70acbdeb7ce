// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that come from files: every product and sum is checked, nothing wraps.
#pragma once

#include <cstdint>
#include <optional>

namespace estream {

// a * b, or nothing if it does not fit 64 bits.
inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// a + b, or nothing if it does not fit 64 bits.
inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// The smallest multiple of `unit` (a power of two) that is >= v, or nothing if it does not fit.
inline std::optional<uint64_t> CheckedAlignUp(uint64_t v, uint64_t unit) {
  auto sum = CheckedAdd(v, unit - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(unit - 1);
}

// For sizes already known to be sane. Pre: `unit` is a power of two and v + unit does not wrap.
constexpr uint64_t AlignUp(uint64_t v, uint64_t unit) { return (v + unit - 1) & ~(unit - 1); }

constexpr uint64_t CeilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace estream
