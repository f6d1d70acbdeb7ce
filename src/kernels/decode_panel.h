// SPDX-License-Identifier: Apache-2.0
// Decoding tiled weights to float with SIMD: what f32 matrix products read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/weight_format.h"

namespace estream {

// out[32 * k + r] = value of element first + k, row r, exact: the same bits as DecodePanel (format/tile.h).
//
//   panel    [MakePanelLayout(format, cols).bytes]; any alignment, best 64
//   out      [count, 32] f32, element-major; best aligned to 64; not aliased with panel
//
// Pre:  CanTile(format, cols); first and count are multiples of 32; first + count <= cols.
// Cost: no allocation; reads each byte of the chunk once.
void DecodePanelF32(WeightFormat format, const std::byte* panel, uint64_t cols, uint64_t first, uint64_t count,
                    float* out);

}  // namespace estream
