// SPDX-License-Identifier: Apache-2.0
// Little-endian fields at any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/half.h"

namespace estream {

static_assert(std::endian::native == std::endian::little, "weight files are little-endian and are read as they are");

// The T stored at `p`, whatever its alignment.
template <class T>
T LoadLe(const std::byte* p) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// The fp16 stored at `p` as float.
inline float LoadHalf(const std::byte* p) { return HalfToFloat(LoadLe<uint16_t>(p)); }

}  // namespace estream
