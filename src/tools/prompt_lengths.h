// SPDX-License-Identifier: Apache-2.0
// Prompt lengths given as a list or as a file of many.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"

namespace estream {

// "16,64,256": lengths from 1 to 2²⁴, as given; nothing when a part is none.
std::optional<std::vector<uint32_t>> ParseLengths(std::string_view text);

// A list of lengths, or else a file of lengths, one a line; of more than eight only so many, that stand for equal
// shares of them.
//
// Errors: as ReadTextFile; InvalidArgument naming a line that is no length.
Result<std::vector<uint32_t>> ReadLengths(const std::string& list_or_file);

}  // namespace estream
