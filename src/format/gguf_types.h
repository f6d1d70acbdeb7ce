// SPDX-License-Identifier: Apache-2.0
// The tensor types that GGUF defines, computed with or not: enough to check extents and to list a file; and its limits.
#pragma once

#include <cstdint>

namespace estream {

constexpr uint64_t kMaxGgufKeyBytes = 65535;      // GGUF specification
constexpr uint64_t kMaxGgufTensorNameBytes = 63;  // readers keep names in 64 bytes with a final zero

struct GgufTypeTraits {
  uint32_t id;
  const char* name;
  uint32_t block_elements;  // values a block; 0 for a type that GGUF has removed and no file may use any more
  uint32_t block_bytes;
};

// The traits of a GGUF type id, or null for an id that no version of GGUF defines.
const GgufTypeTraits* FindGgufType(uint32_t id);

}  // namespace estream
