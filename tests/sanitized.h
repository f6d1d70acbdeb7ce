// SPDX-License-Identifier: Apache-2.0
// Whether this build is instrumented, or run by an emulator: what only long runs show is left to the optimised build
// then.
#pragma once

namespace estream {

#ifdef ES_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

#ifdef ES_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

}  // namespace estream
