// SPDX-License-Identifier: Apache-2.0
// Whether this build is instrumented: what only long runs show is left to the optimised build then.
#pragma once

namespace estream {

#ifdef ES_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace estream
