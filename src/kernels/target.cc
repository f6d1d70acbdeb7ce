// SPDX-License-Identifier: Apache-2.0
// Asks Highway which of the compiled targets it dispatches to.
#include "kernels/target.h"

#define HWY_WANT_AVX3_DL
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/target.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {

const char* ThisTargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(ThisTargetName);

const char* KernelTargetName() { return HWY_DYNAMIC_DISPATCH(ThisTargetName)(); }

}  // namespace estream
#endif  // HWY_ONCE
