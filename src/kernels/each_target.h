// SPDX-License-Identifier: Apache-2.0
// For tests: runs a body once for every compiled SIMD target that this machine supports.
#pragma once

#include <gtest/gtest.h>

#define HWY_WANT_AVX3_DL
#include "kernels/simd.h"
#include "kernels/target.h"

namespace estream {

// Calls body() as if each target in turn were the best that the machine has, under a trace with its name; the first
// call runs on the true best, and dispatch is free again afterwards.
//
// Threads: nothing else may call kernels meanwhile.
template <class Body>
void ForEachTarget(const Body& body) {
  const int64_t all = hwy::SupportedTargets();
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const int64_t no_better = all & ~(target - 1);  // lower bits are better targets
    hwy::SetSupportedTargetsForTest(no_better);
    hwy::GetChosenTarget().Update(no_better);
    SCOPED_TRACE(KernelTargetName());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace estream
