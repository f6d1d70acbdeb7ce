// SPDX-License-Identifier: Apache-2.0
// Asks Highway which of the compiled targets it dispatches to.
#include "kernels/target.h"

#include <sys/auxv.h>

#define HWY_WANT_AVX3_DL
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/target.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

const char* ThisTargetName() {
  if (HWY_TARGET == HWY_NEON && HasDotProduct()) return "NEON_DOT";
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(ThisTargetName);

bool HasDotProduct() {
#ifdef HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return false;
#endif
}

const char* KernelTargetName() { return HWY_DYNAMIC_DISPATCH(ThisTargetName)(); }

}  // namespace estream
#endif  // HWY_ONCE
