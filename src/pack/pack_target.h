// SPDX-License-Identifier: Apache-2.0
// Where a pack goes, and whether it may go there.
#pragma once

#include <string>
#include <vector>

#include "estream/status.h"

namespace estream {

// "model.gguf" -> "model.estream.gguf"; a split set loses its numbers, other names get the ending behind.
std::string DefaultPackPath(const std::string& source);

// The path to write, links followed.
//
//   sources  the files that are being packed; none for a pipe
//
// Errors: InvalidArgument when the pack would replace one of them, or a file that exists without `force`; Io when
// something other than a regular file stands there.
Result<std::string> ResolveTarget(const std::string& out, const std::vector<std::string>& sources, bool force);

}  // namespace estream
