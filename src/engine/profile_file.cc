// SPDX-License-Identifier: Apache-2.0
// Every number is checked against a range within which the model of the pipeline cannot overflow.
#include "engine/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "estream-profile";
constexpr int kVersion = 1;
constexpr size_t kMostProfiles = 16;
constexpr double kMostNs = 1e12;  // a quarter of an hour
constexpr double kMostCount = 1u << 24;
constexpr size_t kMostSamples = 4096;  // of routes
constexpr size_t kMostText = 1000;

// A place in a file: for reading what is there, and for saying what is wrong with it.
class Node {
 public:
  Node(const Json& json, const std::string& file, std::string path)
      : json_(json), file_(file), path_(std::move(path)) {}

  Status Wrong(std::string_view expected) const {
    return Status::Corrupt(fmt::format("{}: {}: expected {}", ShownPath(file_), path_, expected));
  }

  Result<Node> At(const char* key) const {
    if (!json_.is_object()) return Wrong("an object");
    const auto it = json_.find(key);
    if (it == json_.end()) return Wrong(fmt::format("\"{}\" in it", key));
    return Node(*it, file_, path_.empty() ? key : fmt::format("{}.{}", path_, key));
  }

  // The elements of an array of `least` to `most`.
  Result<std::vector<Node>> Elements(size_t least, size_t most) const {
    if (!json_.is_array() || json_.size() < least || json_.size() > most) {
      return Wrong(fmt::format("an array of {} to {} elements", least, most));
    }
    std::vector<Node> nodes;
    for (size_t i = 0; i < json_.size(); ++i) nodes.emplace_back(json_[i], file_, fmt::format("{}[{}]", path_, i));
    return nodes;
  }

  Result<double> Number(double least, double most) const {
    const double value = json_.is_number() ? json_.get<double>() : least - 1;
    if (!(value >= least && value <= most)) return Wrong(fmt::format("a number from {} to {}", least, most));
    return value;
  }

  template <class T>
  Status Read(const char* key, double least, double most, T* value) const {
    ES_ASSIGN_OR_RETURN(const Node node, At(key));
    ES_ASSIGN_OR_RETURN(const double number, node.Number(least, most));
    *value = static_cast<T>(number);
    return Status::Ok();
  }

  Status Read(const char* key, std::string* value) const {
    ES_ASSIGN_OR_RETURN(const Node node, At(key));
    if (!node.json_.is_string() || node.json_.get_ref<const std::string&>().size() > kMostText) {
      return node.Wrong(fmt::format("a text of at most {} bytes", kMostText));
    }
    *value = node.json_.get_ref<const std::string&>();
    return Status::Ok();
  }

  Status Read(const char* key, bool* value) const {
    ES_ASSIGN_OR_RETURN(const Node node, At(key));
    if (!node.json_.is_boolean()) return node.Wrong("true or false");
    *value = node.json_.get<bool>();
    return Status::Ok();
  }

 private:
  const Json& json_;
  const std::string& file_;
  const std::string path_;
};

Status ReadKey(const Node& node, ProfileKey* key) {
  ES_ASSIGN_OR_RETURN(const Node device, node.At("device"));
  ES_RETURN_IF_ERROR(device.Read("processor", &key->processor));
  ES_RETURN_IF_ERROR(device.Read("description", &key->device));
  ES_RETURN_IF_ERROR(device.Read("activations", &key->activations));
  ES_ASSIGN_OR_RETURN(const Node storage, node.At("storage"));
  ES_RETURN_IF_ERROR(storage.Read("device", &key->storage_device));
  ES_RETURN_IF_ERROR(storage.Read("engine", &key->engine));
  ES_RETURN_IF_ERROR(storage.Read("direct", &key->direct));
  return node.Read("pack", &key->pack);
}

Status ReadReads(const Node& node, std::vector<ReadTime>* reads) {
  ES_ASSIGN_OR_RETURN(const auto rows, node.Elements(1, 1000));
  for (const Node& row : rows) {
    ReadTime time;
    ES_RETURN_IF_ERROR(row.Read("bytes", 1, 1e15, &time.bytes));
    ES_RETURN_IF_ERROR(row.Read("depth", 1, 256, &time.depth));
    ES_RETURN_IF_ERROR(row.Read("ns", 1, kMostNs, &time.ns));
    if (!reads->empty() && std::tie(time.depth, time.bytes) <= std::tie(reads->back().depth, reads->back().bytes)) {
      return row.Wrong("depths, and within one the bytes, to ascend");
    }
    reads->push_back(time);
  }
  return Status::Ok();
}

Status ReadClass(const Node& node, ExpertTimes* times) {
  ES_RETURN_IF_ERROR(node.Read("call_ns", 0, kMostNs, &times->call_ns));
  ES_ASSIGN_OR_RETURN(const Node list, node.At("by_routes"));
  ES_ASSIGN_OR_RETURN(const auto rows, list.Elements(1, 100));
  for (const Node& row : rows) {
    RoutesTime time;
    ES_RETURN_IF_ERROR(row.Read("routes", 1, kMostCount, &time.routes));
    ES_RETURN_IF_ERROR(row.Read("ns", 1, kMostNs, &time.ns));
    if (!times->by_routes.empty() && time.routes <= times->by_routes.back().routes) {
      return row.Wrong("routes to ascend");
    }
    times->by_routes.push_back(time);
  }
  return Status::Ok();
}

Status ReadRoutes(const Node& node, uint32_t experts, std::vector<uint32_t>* routes) {
  ES_ASSIGN_OR_RETURN(const auto counts, node.Elements(experts, experts));
  for (const Node& count : counts) {
    ES_ASSIGN_OR_RETURN(const double number, count.Number(0, kMostCount));
    routes->push_back(static_cast<uint32_t>(number));
  }
  return Status::Ok();
}

Status ReadLength(const Node& node, uint32_t experts, LengthTimes* length) {
  ES_RETURN_IF_ERROR(node.Read("tokens", 1, kMostCount, &length->tokens));
  ES_RETURN_IF_ERROR(node.Read("first_ns", 0, kMostNs, &length->first_ns));
  ES_RETURN_IF_ERROR(node.Read("block_ns", 0, kMostNs, &length->block_ns));
  ES_RETURN_IF_ERROR(node.Read("last_ns", 0, kMostNs, &length->last_ns));
  ES_RETURN_IF_ERROR(node.Read("tail_ns", 0, kMostNs, &length->tail_ns));
  ES_RETURN_IF_ERROR(node.Read("exec_scale", 0.01, 100, &length->exec_scale));
  ES_ASSIGN_OR_RETURN(const Node list, node.At("routes"));
  ES_ASSIGN_OR_RETURN(const auto samples, list.Elements(2, kMostSamples));
  for (const Node& sample : samples) {
    length->routes.emplace_back();
    ES_RETURN_IF_ERROR(ReadRoutes(sample, experts, &length->routes.back()));
  }
  return Status::Ok();
}

Status ReadTimes(const Node& node, uint32_t experts, ServiceProfile* times) {
  ES_ASSIGN_OR_RETURN(const Node reads, node.At("reads"));
  ES_RETURN_IF_ERROR(ReadReads(reads, &times->reads));
  ES_ASSIGN_OR_RETURN(const Node classes, node.At("classes"));
  ES_ASSIGN_OR_RETURN(const auto class_list, classes.Elements(1, 100));
  for (const Node& one : class_list) {
    times->classes.emplace_back();
    ES_RETURN_IF_ERROR(ReadClass(one, &times->classes.back()));
  }
  ES_ASSIGN_OR_RETURN(const Node lengths, node.At("lengths"));
  ES_ASSIGN_OR_RETURN(const auto length_list, lengths.Elements(1, 100));
  for (const Node& one : length_list) {
    LengthTimes length;
    ES_RETURN_IF_ERROR(ReadLength(one, experts, &length));
    if (!times->lengths.empty() && length.tokens <= times->lengths.back().tokens) return one.Wrong("tokens to ascend");
    times->lengths.push_back(std::move(length));
  }
  return Status::Ok();
}

Status ReadProfile(const Node& node, TuningProfile* profile) {
  ES_RETURN_IF_ERROR(node.Read("name", &profile->name));
  ES_RETURN_IF_ERROR(node.Read("note", &profile->note));
  ES_RETURN_IF_ERROR(node.Read("quick", &profile->quick));
  ES_RETURN_IF_ERROR(ReadKey(node, &profile->key));
  ES_ASSIGN_OR_RETURN(const Node model, node.At("model"));
  ES_RETURN_IF_ERROR(model.Read("layers", 1, kMostSamples, &profile->model.layers));
  ES_RETURN_IF_ERROR(model.Read("experts", 1, kMostSamples, &profile->model.experts));
  ES_RETURN_IF_ERROR(model.Read("top_k", 1, kMostSamples, &profile->model.top_k));
  ES_RETURN_IF_ERROR(model.Read("hidden", 1, kMostCount, &profile->model.hidden));
  return ReadTimes(node, profile->model.experts, &profile->times);
}

Json ToJson(const ServiceProfile& times, Json profile) {
  Json& reads = profile["reads"] = Json::array();
  for (const ReadTime& r : times.reads) reads.push_back({{"bytes", r.bytes}, {"depth", r.depth}, {"ns", r.ns}});
  Json& classes = profile["classes"] = Json::array();
  for (const ExpertTimes& c : times.classes) {
    Json by_routes = Json::array();
    for (const RoutesTime& t : c.by_routes) by_routes.push_back({{"routes", t.routes}, {"ns", t.ns}});
    classes.push_back({{"call_ns", c.call_ns}, {"by_routes", by_routes}});
  }
  Json& lengths = profile["lengths"] = Json::array();
  for (const LengthTimes& l : times.lengths) {
    lengths.push_back({{"tokens", l.tokens},
                       {"first_ns", l.first_ns},
                       {"block_ns", l.block_ns},
                       {"last_ns", l.last_ns},
                       {"tail_ns", l.tail_ns},
                       {"exec_scale", l.exec_scale},
                       {"routes", l.routes}});
  }
  return profile;
}

Json ToJson(const TuningProfile& p) {
  const ProfileKey& k = p.key;
  const ProfiledModel& m = p.model;
  Json profile = {{"name", p.name},
                  {"note", p.note},
                  {"quick", p.quick},
                  {"device", {{"processor", k.processor}, {"description", k.device}, {"activations", k.activations}}},
                  {"storage", {{"device", k.storage_device}, {"engine", k.engine}, {"direct", k.direct}}},
                  {"pack", k.pack},
                  {"model", {{"layers", m.layers}, {"experts", m.experts}, {"top_k", m.top_k}, {"hidden", m.hidden}}}};
  return ToJson(p.times, std::move(profile));
}

}  // namespace

Result<std::vector<TuningProfile>> ParseProfiles(std::string_view text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Status::Corrupt(fmt::format("{}: is no JSON", ShownPath(file)));
  const Node root(json, file, "");
  std::string format;
  const Status is_profile = root.Read("format", &format);
  if (!is_profile.ok() || format != kFormat) {
    return Status::Corrupt(fmt::format("{}: is no profile: format: expected \"{}\"", ShownPath(file), kFormat));
  }
  double version = 0;
  ES_RETURN_IF_ERROR(root.Read("version", 0, 1e6, &version));
  if (version != kVersion) {
    return Status::Unsupported(
        fmt::format("{}: version {}: expected {}; estream tune makes a new one", ShownPath(file), version, kVersion));
  }
  ES_ASSIGN_OR_RETURN(const Node list, root.At("profiles"));
  ES_ASSIGN_OR_RETURN(const auto nodes, list.Elements(0, kMostProfiles));
  std::vector<TuningProfile> profiles(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) ES_RETURN_IF_ERROR(ReadProfile(nodes[i], &profiles[i]));
  return profiles;
}

std::string FormatProfiles(const std::vector<TuningProfile>& profiles) {
  Json list = Json::array();
  for (const TuningProfile& p : profiles) list.push_back(ToJson(p));
  const Json json = {{"format", kFormat}, {"version", kVersion}, {"profiles", list}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

const TuningProfile* FindProfile(const std::vector<TuningProfile>& profiles, const ProfileKey& key,
                                 std::string* why_not) {
  size_t fewest = SIZE_MAX;
  for (const TuningProfile& p : profiles) {
    if (p.key == key) return &p;
    size_t differences = 0;
    std::string first;
    const std::string direct[] = {"buffered reads", "direct reads"};
    for (const auto& [what, theirs, ours] :
         {std::tuple("pack", p.key.pack, key.pack), std::tuple("processor", p.key.processor, key.processor),
          std::tuple("device", p.key.device, key.device), std::tuple("activations", p.key.activations, key.activations),
          std::tuple("storage", p.key.storage_device, key.storage_device),
          std::tuple("reads", p.key.engine, key.engine),
          std::tuple("reads", direct[p.key.direct ? 1 : 0], direct[key.direct ? 1 : 0])}) {
      if (theirs == ours) continue;
      if (differences++ == 0) first = fmt::format("{} was {:.60}, is {:.60}", what, theirs, ours);
    }
    if (differences < fewest) {
      fewest = differences;
      *why_not = first;
    }
  }
  return nullptr;
}

void AddProfile(TuningProfile profile, std::vector<TuningProfile>* profiles) {
  std::erase_if(*profiles, [&](const TuningProfile& p) { return p.key == profile.key; });
  if (profiles->size() >= kMostProfiles) profiles->erase(profiles->begin());
  profiles->push_back(std::move(profile));
}

std::string ProfilePathOf(const std::string& pack) {
  std::string stem = pack;
  for (const std::string_view end : {".estream.gguf", ".gguf"}) {
    const size_t name = stem.find_last_of('/') + 1;  // 0 without a folder
    if (!stem.ends_with(end) || stem.size() - name <= end.size()) continue;
    stem.resize(stem.size() - end.size());
    break;
  }
  return stem + ".profile.json";
}

}  // namespace estream
