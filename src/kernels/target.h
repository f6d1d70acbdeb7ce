// SPDX-License-Identifier: Apache-2.0
// Which SIMD target the kernels run on.
#pragma once

namespace estream {

// The name of the best target that this machine and these kernels have: "AVX3_DL" (AVX-512 with VNNI), "AVX3"
// (AVX-512), "AVX2", "NEON" ("NEON_DOT" with the integer dot product of ARMv8.2), or the portable "EMU128" or "SCALAR".
// A kernel that gains nothing from the first runs as the second.
const char* KernelTargetName();

// Whether this CPU is an Arm one with the dot product of signed bytes, which is no target of its own.
bool HasDotProduct();

}  // namespace estream
