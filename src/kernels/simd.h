// SPDX-License-Identifier: Apache-2.0
// The SIMD targets every kernel is built for, in one place; include it before hwy/foreach_target.h or hwy/highway.h.
//
// A kernel file includes this header, defines HWY_TARGET_INCLUDE as its own name, includes hwy/foreach_target.h,
// hwy/highway.h and, for FusedMulAdd, kernels/simd-inl.h; its loops live in estream::HWY_NAMESPACE and a plain function
// under HWY_ONCE picks the target by HWY_DYNAMIC_DISPATCH.
#pragma once

#ifdef HWY_DISABLED_TARGETS
#error "include kernels/simd.h before any header of Highway"
#endif

// AVX2 (with FMA), AVX-512, AVX-512 with VNNI (only where a file defines HWY_WANT_AVX3_DL), NEON, and one portable
// fall-back. SSE, SVE and the rest would cost build time for machines that the first five already serve.
// Sanitizer builds leave AVX-512 out: instrumented, every further target costs a minute, and finds nothing that AVX2
// and the fall-back, which run the same source, do not.
#ifdef ES_SANITIZED
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_NEON | HWY_EMU128 | HWY_SCALAR))
#else
#define HWY_DISABLED_TARGETS (~(HWY_AVX3_DL | HWY_AVX3 | HWY_AVX2 | HWY_NEON | HWY_EMU128 | HWY_SCALAR))
#endif

#include "hwy/targets.h"
