// SPDX-License-Identifier: Apache-2.0
// The pack order as a text file: for each sparse layer a line with the indices of its experts, first stored first.
#pragma once

#include <string>
#include <string_view>

#include "estream/status.h"
#include "family/model_plan.h"

namespace estream {

// Sets the plan's expert orders from `text`. Indices are separated by blanks or commas; "#" begins a comment; lines
// without an index do not count. An order that is the source's own is left out.
//
// Errors: InvalidArgument with `name`, the line and what is wrong: a word that is no number, an index out of range or
// twice, too many or too few indices or lines.
Status ParseExpertOrder(std::string_view text, const std::string& name, ModelPlan* plan);

// The same for a file ("-" is standard input). Errors: as ReadTextFile.
Status LoadExpertOrder(const std::string& path, ModelPlan* plan);

}  // namespace estream
