// SPDX-License-Identifier: Apache-2.0
// Loops that do nothing but multiply and add, as fast as a core can: the peaks that kernels are measured against.
#pragma once

#include <cstdint>

namespace estream {

// Instruction mixes of which each is the densest for one kind of kernel.
enum class PeakMix {
  kFma,       // f32 fused multiply-add, operands in registers
  kInt8Pair,  // u8 x i8 to 16 bits and an addition (AVX2 and up), operands from the L1 cache
  kInt8Quad,  // u8 x i8 to 32 bits in one instruction (AVX-512 VNNI), operands from the L1 cache
};

// Runs `rounds` rounds on the calling thread and says how many multiply-adds that was: the caller divides by the time.
// 0 when the target in use does not have the instructions (nothing is run).
uint64_t RunPeakLoop(PeakMix mix, uint64_t rounds);

}  // namespace estream
