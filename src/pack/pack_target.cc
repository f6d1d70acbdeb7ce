// SPDX-License-Identifier: Apache-2.0
// Files are compared by device and inode: two names may be one file.
#include "pack/pack_target.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <optional>
#include <utility>

#include "format/quote.h"
#include "format/split_name.h"

namespace estream {
namespace {

std::optional<std::pair<dev_t, ino_t>> FileIdentity(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return std::pair(info.st_dev, info.st_ino);
}

// `path` with links followed, when it exists.
std::string Resolved(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result = real;
  free(real);
  return result;
}

}  // namespace

std::string DefaultPackPath(const std::string& source) {
  constexpr const char* kEnding = ".estream.gguf";
  if (const auto split = ParseSplitName(source)) return split->prefix + kEnding;
  const std::string ending = ".gguf";
  return (source.ends_with(ending) ? source.substr(0, source.size() - ending.size()) : source) + kEnding;
}

Result<std::string> ResolveTarget(const std::string& out, const std::vector<std::string>& sources, bool force) {
  const std::string target = Resolved(out);
  const auto wanted = FileIdentity(target), partial = FileIdentity(target + ".partial");
  for (const std::string& source : sources) {
    const auto identity = FileIdentity(source);
    if (identity && (identity == wanted || identity == partial)) {
      return Status::InvalidArgument(
          fmt::format("{}: is the model itself; choose another name with -o", ShownPath(out)));
    }
  }
  if (!wanted) return target;
  struct stat info;
  if (stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Status::Io(fmt::format("{}: cannot be written, it is not a regular file", ShownPath(out)));
  }
  if (!force) return Status::InvalidArgument(fmt::format("{}: exists already; --force replaces it", ShownPath(out)));
  return target;
}

}  // namespace estream
