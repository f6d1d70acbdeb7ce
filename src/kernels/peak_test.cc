// SPDX-License-Identifier: Apache-2.0
// The peak loops count what they do, and exist where their instructions do.
#include "kernels/peak.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/each_target.h"

namespace estream {
namespace {

TEST(RunPeakLoop, CountsInProportionToRounds) {
  ForEachTarget([] {
    for (const PeakMix mix : {PeakMix::kFma, PeakMix::kInt8Pair, PeakMix::kInt8Quad}) {
      EXPECT_EQ(RunPeakLoop(mix, 0), 0u);
      EXPECT_EQ(RunPeakLoop(mix, 30), 30 * RunPeakLoop(mix, 1));
    }
  });
}

TEST(RunPeakLoop, MixesExistWhereTheirInstructionsDo) {
  ForEachTarget([] {
    EXPECT_GE(RunPeakLoop(PeakMix::kFma, 1), 12u);
    const std::string target = KernelTargetName();
    const uint64_t bytes = target == "AVX2" ? 32 : target.starts_with("AVX3") ? 64 : 0;
    EXPECT_EQ(RunPeakLoop(PeakMix::kInt8Pair, 1), 64 * bytes);
    EXPECT_EQ(RunPeakLoop(PeakMix::kInt8Quad, 1), target == "AVX3_DL" ? 64 * bytes : 0);
  });
}

}  // namespace
}  // namespace estream
