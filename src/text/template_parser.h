// SPDX-License-Identifier: Apache-2.0
// From the source of a chat template to its tree.
//
// The subset of Jinja: if/elif/else, for over a list, set (of a variable or a namespace's member); expressions of
// strings, whole numbers, names, members, indices, slices, calls, filters, tests, arithmetic, comparisons, in, not,
// and, or, and x if y else z, with Jinja's precedences. Whatever else Jinja has is refused by name. Which functions,
// methods, filters and tests exist is decided when one is reached: what a chat does not need may be unknown.
#pragma once

#include <cstdint>
#include <string_view>

#include "estream/status.h"
#include "text/template_tree.h"

namespace estream {

// Templates in use have a few kilobytes. Depths bound the stack that parsing, rendering and destroying take.
inline constexpr size_t kMaxTemplateBytes = size_t{256} << 10;
inline constexpr uint32_t kMaxExpressionDepth = 100;
inline constexpr uint32_t kMaxStatementDepth = 50;

// The statements of `source`; `name` is what errors call it.
//
// Errors: one sentence with name and line: Corrupt for what is no Jinja, Unsupported for what is not in the subset or
//         exceeds a limit.
Result<TemplateBody> ParseTemplate(std::string_view source, std::string_view name);

}  // namespace estream
