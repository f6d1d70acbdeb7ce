// SPDX-License-Identifier: Apache-2.0
// Who may include whom: the picture of the layers as data, and a checker of #include lines against it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace estream {

// A layer and those directly below it; what it may include is everything below, however deep.
using LayerTable = std::map<std::string, std::set<std::string>>;

const LayerTable& DirectDependencies();

struct SourceText {
  std::string path;  // from the repository's root: "src/format/gguf.cc"
  std::string text;
};

// One line for every #include that breaks a rule: "src/base/x.h:3: base may not include format (format/gguf.h)".
std::vector<std::string> LayerViolations(const std::vector<SourceText>& files);

}  // namespace estream
