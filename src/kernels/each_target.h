// SPDX-License-Identifier: Apache-2.0
// For tests: runs a body once for every compiled SIMD target that this machine supports.
#pragma once

#include <gtest/gtest.h>

#include "kernels/simd.h"
#include "kernels/target.h"

namespace estream {

// Calls body() with dispatch fixed to each target in turn, under a trace with its name; dispatch is free again
// afterwards. The first call runs on the best target.
//
// Threads: nothing else may call kernels meanwhile.
template <class Body>
void ForEachTarget(const Body& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(KernelTargetName());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace estream
