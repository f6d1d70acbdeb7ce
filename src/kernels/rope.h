// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: angles in double, rotations in f32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace estream {

// frequencies[i] = base^(-i / pairs) / factor for i < pairs: radians a position.
void RopeFrequencies(uint32_t pairs, float base, float factor, double* frequencies);

// cos[i] and sin[i] of position * frequencies[i] for i < pairs, rounded once from double.
void RopeAngles(uint32_t position, uint32_t pairs, const double* frequencies, float* cos, float* sin);

// Rotates pair i of every head: (a, b) -> (a cos[i] - b sin[i], a sin[i] + b cos[i]). Values beyond 2 pairs stay.
//
//   x         [heads] of at least 2 * pairs f32, head_stride floats apart; in place
//   cos, sin  [pairs] f32 of the row's position
//
// RotateHalves pairs (i, i + pairs), the NeoX style; RotateAdjacent pairs (2i, 2i + 1).
void RotateHalves(float* x, uint32_t heads, size_t head_stride, uint32_t pairs, const float* cos, const float* sin);
void RotateAdjacent(float* x, uint32_t heads, size_t head_stride, uint32_t pairs, const float* cos, const float* sin);

}  // namespace estream
