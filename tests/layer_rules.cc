// SPDX-License-Identifier: Apache-2.0
// Three tables and one walk over lines.
#include "tests/layer_rules.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

namespace estream {
namespace {

// Public headers and the layer that implements them.
const std::map<std::string, std::string>& PublicHeaders() {
  static const std::map<std::string, std::string> table = {
      {"estream/status.h", "base"},       {"estream/model.h", "engine"},  {"estream/engine.h", "engine"},
      {"estream/pack_cache.h", "engine"}, {"estream/classify.h", "task"}, {"estream/chat.h", "text"},
      {"estream/tune.h", "engine"},
  };
  return table;
}

// System headers that only some files may include; a file is named by the beginning of its path under src/.
struct Reserved {
  std::string_view header;  // its beginning
  std::vector<std::string_view> users;
};

const std::vector<Reserved>& ReservedHeaders() {
  static const std::vector<Reserved> table = {
      // SIMD: one layer knows about vector registers.
      {"<hwy/", {"kernels/"}},
      {"\"hwy/", {"kernels/"}},
      {"<immintrin.h>", {"kernels/"}},
      {"<x86intrin.h>", {"kernels/"}},
      {"<emmintrin.h>", {"kernels/"}},
      {"<arm_neon.h>", {"kernels/"}},
      // Recursive on its input: a long run of one character ends the process.
      {"<regex>", {}},
      // A library does not print.
      {"<iostream>", {"tools/"}},
      {"<cstdio>", {"tools/", "base/macros.h", "format/atomic_file.cc", "pack/pack_output.cc"}},  // ES_CHECK; rename(2)
      {"<stdio.h>", {"tools/"}},
      // Files are opened in three places; what the system says about itself is read in one.
      {"<fstream>", {"tools/", "base/machine.cc"}},
      {"<fcntl.h>", {"format/file.cc", "format/atomic_file.cc", "residency/", "pack/"}},
      {"<liburing.h>", {"residency/"}},
  };
  return table;
}

// "src/format/gguf.cc" -> "format"; "include/estream/engine.h" -> "engine"; nothing for what is in no layer.
std::optional<std::string> LayerOfFile(const std::string& path) {
  if (path.starts_with("include/")) {
    const auto it = PublicHeaders().find(path.substr(8));
    if (it == PublicHeaders().end()) return std::nullopt;
    return it->second;
  }
  const size_t end = path.find('/', 4);
  if (!path.starts_with("src/") || end == std::string::npos) return std::nullopt;
  return path.substr(4, end - 4);
}

// The layer of `header` as it stands in an #include.
std::optional<std::string> LayerOfHeader(const std::string& header) {
  return LayerOfFile(header.starts_with("estream/") ? "include/" + header : "src/" + header);
}

// All layers that `layer` may include.
std::set<std::string> Below(const std::string& layer) {
  std::set<std::string> found;
  std::vector<std::string> open = {layer};
  while (!open.empty()) {
    const std::string next = open.back();
    open.pop_back();
    for (const std::string& direct : DirectDependencies().at(next)) {
      if (found.insert(direct).second) open.push_back(direct);
    }
  }
  return found;
}

// x_test.cc, fakes in testing/, and headers test_x.h that only tests include.
bool IsTestFile(const std::string& path) {
  return path.ends_with("_test.cc") || path.find("/testing/") != std::string::npos ||
         path.find("/test_") != std::string::npos;
}

// What follows #include on `line`, with its quotes or brackets; empty for other lines.
std::string Included(const std::string& line) {
  std::istringstream words(line);
  std::string hash, rest;
  words >> hash >> rest;
  if (hash == "#") {
    hash += rest;
    words >> rest;
  }
  if (hash.starts_with("#include") && hash.size() > 8) rest = hash.substr(8);  // #include<x>
  return hash.starts_with("#include") ? rest : "";
}

// What is wrong with `include` in `file` of `layer`; empty when nothing is.
std::string Judge(const SourceText& file, const std::string& layer, const std::string& include) {
  for (const Reserved& reserved : ReservedHeaders()) {
    if (!include.starts_with(reserved.header) || IsTestFile(file.path)) continue;
    const auto is_user = [&](std::string_view user) { return file.path.starts_with("src/" + std::string(user)); };
    if (!std::any_of(reserved.users.begin(), reserved.users.end(), is_user)) return "may not include " + include;
  }
  if (include[0] != '"') return "";
  const std::string header = include.substr(1, include.find('"', 1) - 1);
  if (header.starts_with("tests/")) return IsTestFile(file.path) ? "" : "includes test code (" + header + ")";
  if (header.starts_with("hwy/")) return "";
  if (IsTestFile("src/" + header) && !IsTestFile(file.path)) return "includes test code (" + header + ")";
  const auto target = LayerOfHeader(header);
  if (!target || DirectDependencies().count(*target) == 0) return "includes " + header + ", which is in no layer";
  if (*target == layer || Below(layer).count(*target) != 0) return "";
  return layer + " may not include " + *target + " (" + header + ")";
}

}  // namespace

const LayerTable& DirectDependencies() {
  static const LayerTable table = {
      {"base", {}},
      {"format", {"base"}},
      {"graph", {"format"}},
      {"kernels", {"format"}},
      {"family", {"graph"}},
      {"residency", {"graph"}},
      {"device", {"graph", "kernels"}},
      {"pipeline", {"residency", "device"}},
      {"text", {"format"}},
      {"model", {"family", "pipeline"}},
      {"pack", {"family"}},
      {"engine", {"model", "pack", "text"}},
      {"task", {"engine"}},
      {"tools", {"task"}},
  };
  return table;
}

std::vector<std::string> LayerViolations(const std::vector<SourceText>& files) {
  std::vector<std::string> violations;
  for (const SourceText& file : files) {
    const auto layer = LayerOfFile(file.path);
    if (!layer || DirectDependencies().count(*layer) == 0) {
      violations.push_back(file.path + ": is in no layer");
      continue;
    }
    std::istringstream lines(file.text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::string include = Included(line);
      if (include.empty()) continue;
      const std::string wrong = Judge(file, *layer, include);
      if (!wrong.empty()) violations.push_back(file.path + ":" + std::to_string(number) + ": " + wrong);
    }
  }
  return violations;
}

}  // namespace estream
