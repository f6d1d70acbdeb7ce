// SPDX-License-Identifier: Apache-2.0
// What the parser and the accessors both know about GGUF value types.
#pragma once

#include <cstdint>

#include "format/gguf.h"

namespace estream {

constexpr bool IsGgufValueType(uint32_t type) { return type <= static_cast<uint32_t>(GgufValueType::kF64); }

// Bytes of a scalar; of a string: of its length field. Pre: not an array.
constexpr uint64_t ScalarBytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16:
      return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32:
      return 4;
    default:
      return 8;
  }
}

}  // namespace estream
