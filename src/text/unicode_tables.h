// SPDX-License-Identifier: Apache-2.0
// Where the class of code points changes; the data of ClassOf (text/char_class.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace estream {

// Ascending; each entry is first code point << 2 | class (CharClass), good until the next entry. The first is code
// point 0.
extern const uint32_t kClassStarts[];
extern const size_t kClassStartCount;

}  // namespace estream
