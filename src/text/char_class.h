// SPDX-License-Identifier: Apache-2.0
// The four classes of characters that pre-tokenizer patterns tell apart.
#pragma once

#include <cstdint>

namespace estream {

enum class CharClass : uint8_t {
  kOther,   // everything else: punctuation, symbols, marks, control characters, unassigned
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s: the White_Space property
};

// The class of a code point; kOther past U+10FFFF.    Cost: one table look-up for ASCII, else a binary search.
CharClass ClassOf(uint32_t code_point);

}  // namespace estream
