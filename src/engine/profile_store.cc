// SPDX-License-Identifier: Apache-2.0
// Finding, loading and saving profiles.
#include "engine/profile_store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <utility>

#include "base/machine.h"
#include "base/macros.h"
#include "engine/expert_setup.h"
#include "estream/pack_cache.h"
#include "estream/tune.h"
#include "format/file.h"
#include "format/quote.h"

namespace estream {
namespace {

namespace fs = std::filesystem;

// The profile of `pack` in the cache folder; empty when there is no such folder.
std::string CachedProfilePath(const std::string& pack) {
  const std::string folder = DefaultPackCache();
  if (folder.empty()) return "";
  std::error_code error;
  const fs::path real = fs::canonical(pack, error);
  const std::string text = error ? pack : real.string();
  const std::string hash = HexText(HashOf(std::as_bytes(std::span(text)))).substr(0, 16);
  return (fs::path(folder) / (hash + "-" + fs::path(ProfilePathOf(text)).filename().string())).string();
}

// Nothing at `path` is no profiles.
Result<std::vector<TuningProfile>> ReadProfiles(const std::string& path) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return std::vector<TuningProfile>();
  ES_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxProfileBytes));
  return ParseProfiles(text, path);
}

Status WriteProfiles(const TuningProfile& profile, const std::string& path) {
  std::vector<TuningProfile> profiles;
  if (auto known = ReadProfiles(path); known.ok()) profiles = std::move(*known);
  AddProfile(profile, &profiles);
  const std::string text = FormatProfiles(profiles);
  return WriteFileAtomically(path, std::as_bytes(std::span(text)));
}

}  // namespace

Result<ProfileKey> ProfileKeyOf(const ModelFile& model, const EngineOptions& options) {
  const PackFile* pack = model.pack();
  if (pack == nullptr) {
    return Status::InvalidArgument(
        fmt::format("{}: is a plain model file; experts are streamed from a pack, which "
                    "estream pack makes",
                    ShownPath(model.info().path)));
  }
  ProfileKey key;
  ES_ASSIGN_OR_RETURN(const auto device,
                      MakeDevice({options.device, options.threads, nullptr, options.activations, nullptr}));
  key.processor = ProcessorName();
  key.device = device->traits().description;
  key.activations = device->traits().activations;
  struct stat info;
  if (stat(pack->path().c_str(), &info) == 0) {
    key.storage_device = fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev));
  }
  ReadEngineOptions engine_options;
  ES_ASSIGN_OR_RETURN(engine_options.kind, ParseStorage(options.experts.storage));
  engine_options.depth = 1;
  ES_ASSIGN_OR_RETURN(const std::shared_ptr<RecordFile> file, OpenRecordFile(pack->path()));
  ES_ASSIGN_OR_RETURN(const auto engine, MakeReadEngine({file}, {}, engine_options));
  key.engine = engine->mode().engine;
  key.direct = file->direct();
  key.pack = HexText(pack->header_hash());
  return key;
}

Result<std::string> SaveProfile(TuningProfile profile, const std::string& pack) {
  const std::string beside = ProfilePathOf(pack);
  const Status status = WriteProfiles(profile, beside);
  if (status.ok()) return beside;
  const std::string cached = CachedProfilePath(pack);
  if (cached.empty()) return status;
  std::error_code error;
  fs::create_directories(fs::path(cached).parent_path(), error);
  ES_RETURN_IF_ERROR(WriteProfiles(profile, cached));
  return cached;
}

Result<std::shared_ptr<const TuningProfile>> LoadProfile(const Model& model, const EngineOptions& options,
                                                         std::string* note) {
  note->clear();
  const auto* file = dynamic_cast<const ModelFile*>(&model);
  if (file == nullptr || file->pack() == nullptr) return std::shared_ptr<const TuningProfile>();
  const std::string& pack = file->pack()->path();
  std::optional<ProfileKey> key;
  for (const std::string& path : {ProfilePathOf(pack), CachedProfilePath(pack)}) {
    ES_ASSIGN_OR_RETURN(const std::vector<TuningProfile> profiles, ReadProfiles(path));
    if (profiles.empty()) continue;
    if (!key) {
      ES_ASSIGN_OR_RETURN(key, ProfileKeyOf(*file, options));
    }
    std::string why_not;
    if (const TuningProfile* found = FindProfile(profiles, *key, &why_not); found != nullptr) {
      note->clear();
      return std::make_shared<const TuningProfile>(*found);
    }
    *note = fmt::format("{}: not used: {}", ShownPath(path), why_not);
  }
  return std::shared_ptr<const TuningProfile>();
}

Result<std::vector<std::shared_ptr<const TuningProfile>>> LoadProfilesOf(const Model& model, const std::string& file) {
  ES_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxProfileBytes));
  ES_ASSIGN_OR_RETURN(const std::vector<TuningProfile> profiles, ParseProfiles(text, file));
  const ModelInfo& info = model.info();
  const ProfiledModel wanted = {info.sparse_layers, info.experts, info.top_k, info.hidden};
  std::vector<std::shared_ptr<const TuningProfile>> found;
  std::string names;
  for (const TuningProfile& p : profiles) {
    names += fmt::format("{}{:.40}", names.empty() ? "" : ", ", p.name);
    if (p.model == wanted) found.push_back(std::make_shared<const TuningProfile>(p));
  }
  if (found.empty()) {
    return Status::NotFound(fmt::format(
        "{}: no profile of a model of {} layers of {} experts, {} used, {} wide; it has: "
        "{:.100}",
        ShownPath(file), wanted.layers, wanted.experts, wanted.top_k, wanted.hidden, names.empty() ? "none" : names));
  }
  return found;
}

std::string ProfileName(const TuningProfile& profile) { return profile.name; }
std::string ProfileNote(const TuningProfile& profile) { return profile.note; }

}  // namespace estream
