// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known word that a mistyped one is closest to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace estream {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b);

// The word of `known` closest to `word`, the first of equals; empty when none is close enough to be what was meant. A
// word that `word` begins ("--temp" of "--template") counts as close.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace estream
