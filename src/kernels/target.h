// SPDX-License-Identifier: Apache-2.0
// Which SIMD target the kernels run on.
#pragma once

namespace estream {

// The name of the target in use on this machine: "AVX3" (AVX-512), "AVX3_DL" (with VNNI), "AVX2", "NEON" or "EMU128"
// (portable).
const char* KernelTargetName();

}  // namespace estream
