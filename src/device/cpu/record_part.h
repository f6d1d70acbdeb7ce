// SPDX-License-Identifier: Apache-2.0
// The f32 values of a part of a record.
#pragma once

#include <cstddef>

#include "graph/refs.h"

namespace estream {

// Pre: the record is aligned to 4 bytes, which binding has checked.
inline const float* Values(const VectorSpec& part, const std::byte* record) {
  return reinterpret_cast<const float*>(record + part.offset);
}

}  // namespace estream
