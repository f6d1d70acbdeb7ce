// SPDX-License-Identifier: Apache-2.0
// A cached pack is named after its model and a hash of the model's real path, so that models of one name do not meet.
#include "estream/pack_cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/macros.h"
#include "format/gguf.h"
#include "format/quote.h"
#include "pack/hash128.h"
#include "pack/pack_file.h"
#include "pack/pack_target.h"
#include "pack/pack_writer.h"

namespace estream {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// Where the pack of `model` belongs.
Result<std::string> PlaceOf(const std::string& model, const std::string& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(model, error);
  if (error) return Status::NotFound(fmt::format("{}: {}", ShownPath(model), error.message()));
  const std::string text = real.string();
  const std::string hash = HexText(HashOf(std::as_bytes(std::span(text)))).substr(0, 16);
  const fs::path name = fs::path(DefaultPackPath(text)).filename();
  return (fs::path(folder) / fmt::format("{}-{}", hash, name.string())).string();
}

// Why `path` cannot serve as the pack of `model`; empty when it can.
std::string WhyNot(const std::string& path, const std::string& model) {
  std::error_code error;
  if (!fs::exists(path, error)) return "first use";
  const auto pack = PackFile::Open(path);
  if (!pack.ok()) return "the cached pack cannot be used";
  if (!pack->CheckSource(model).ok()) return "the model has changed";
  return "";
}

}  // namespace

std::string DefaultPackCache() {
  if (const std::string own = Environment("ESTREAM_CACHE_DIR"); !own.empty()) return own;
  if (const std::string xdg = Environment("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/estream";
  if (const std::string home = Environment("HOME"); !home.empty()) return home + "/.cache/estream";
  return "";
}

Result<std::string> CachedPack(const std::string& model, const PackCacheOptions& options) {
  ES_ASSIGN_OR_RETURN(const Gguf file, Gguf::Open(model));
  const GgufValue* architecture = file.Find("general.architecture");
  if (architecture != nullptr && architecture->AsString() == "estream") return model;

  const std::string folder = options.folder.empty() ? DefaultPackCache() : options.folder;
  if (folder.empty()) {
    return Status::InvalidArgument("no cache folder: none of ESTREAM_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
  }
  ES_ASSIGN_OR_RETURN(const std::string path, PlaceOf(model, folder));
  const std::string reason = WhyNot(path, model);
  if (reason.empty()) return path;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Status::Io(fmt::format("{}: cannot be made: {}", ShownPath(folder), error.message()));
  if (options.notice) options.notice(fmt::format("packing {} into {} ({})", ShownPath(model), ShownPath(path), reason));

  PackOptions pack;
  pack.source = model;
  pack.out = path;
  pack.force = true;
  pack.threads = options.threads;
  pack.cancel = options.cancel;
  if (options.progress) {
    pack.progress = [&](const PackProgress& p) { options.progress(p.phase, p.done, p.total); };
  }
  PackReport report;
  ES_RETURN_IF_ERROR(PackModel(pack, &report));
  return path;
}

std::string ExistingPack(const std::string& model, const std::string& folder) {
  if (PackFile::Open(model).ok()) return model;
  const std::string cache = folder.empty() ? DefaultPackCache() : folder;
  if (cache.empty()) return "";
  const auto place = PlaceOf(model, cache);
  return place.ok() && WhyNot(*place, model).empty() ? *place : "";
}

}  // namespace estream
