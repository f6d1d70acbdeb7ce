// SPDX-License-Identifier: Apache-2.0
// Opening a file or a split set, and look-ups whose errors say what was expected and what was found.
#include "format/gguf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "base/macros.h"
#include "format/gguf_parser.h"
#include "format/quote.h"
#include "format/split_name.h"

namespace estream {
namespace {

constexpr uint64_t kMaxShards = 65535;  // split.count is a u16

// How many files the set of `gguf` has; 1 when it is whole.
Result<uint64_t> ShardCount(const Gguf& gguf) {
  ES_ASSIGN_OR_RETURN(const uint64_t count, gguf.UintOr("split.count", 1, 0, kMaxShards));
  return count == 0 ? 1 : count;
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The names of all shards, or what is wrong: `given` is the shard the user named.
Result<std::vector<std::string>> ShardPaths(const Gguf& given, uint32_t count) {
  ES_ASSIGN_OR_RETURN(const uint64_t no, given.Uint("split.no", 0, count - 1));
  const auto number = static_cast<uint32_t>(no) + 1;  // split.no counts from 0, names from 1
  const auto name = ParseSplitName(given.path());
  if (!name || name->number != number || name->count != count) {
    return Status::Corrupt(fmt::format("{}: is shard {} of {} by its metadata, so its name must end in {}",
                                       ShownPath(given.path()), number, count, SplitSuffix(number, count)));
  }
  std::vector<std::string> paths;
  for (uint32_t n = 1; n <= count; ++n) paths.push_back(name->prefix + SplitSuffix(n, count));
  return paths;
}

Status CheckAllPresent(const Gguf& given, const std::vector<std::string>& paths) {
  std::string missing;
  uint32_t missing_count = 0;
  for (const std::string& path : paths) {
    if (access(path.c_str(), F_OK) == 0) continue;
    if (++missing_count == 1) missing = ShownPath(BaseName(path));
  }
  if (missing_count == 0) return Status::Ok();
  const std::string more = missing_count == 1 ? "" : fmt::format(" and {} more", missing_count - 1);
  return Status::NotFound(fmt::format("{}: is one of {} shards, and {}{} {} missing beside it", ShownPath(given.path()),
                                      paths.size(), missing, more, missing_count == 1 ? "is" : "are"));
}

// What a value is, for "is ..., expected ...".
std::string Found(const GgufValue& value) {
  if (const auto i = value.AsInt()) return std::to_string(*i);
  if (const auto u = value.AsUint()) return std::to_string(*u);
  if (const auto f = value.AsFloat())
    return std::isfinite(*f) ? fmt::format("the float {}", *f) : fmt::format("{}", *f);
  if (value.type() == GgufValueType::kArray) {
    return fmt::format("an array of {} {}", value.count(), GgufValueTypeName(value.element_type()));
  }
  return fmt::format("a {}", GgufValueTypeName(value.type()));
}

Status Missing(const Gguf& gguf, std::string_view key) {
  return Status::Corrupt(fmt::format("{}: key {} is missing", ShownPath(gguf.path()), Quoted(key)));
}

Status Unexpected(const Gguf& gguf, std::string_view key, const GgufValue& value, const std::string& expected) {
  return Status::Corrupt(
      fmt::format("{}: key {} is {}, expected {}", ShownPath(gguf.path()), Quoted(key), Found(value), expected));
}

}  // namespace

Result<Gguf> Gguf::Open(const std::string& path) {
  ES_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, OpenFile(path));
  ES_ASSIGN_OR_RETURN(Gguf gguf, GgufParser::Parse(std::move(file)));
  ES_ASSIGN_OR_RETURN(const uint64_t shards, ShardCount(gguf));
  if (shards == 1) return gguf;
  return OpenSplitSet(gguf, static_cast<uint32_t>(shards));
}

Result<Gguf> Gguf::Open(std::shared_ptr<const RandomAccessFile> file) {
  ES_ASSIGN_OR_RETURN(Gguf gguf, GgufParser::Parse(std::move(file)));
  ES_ASSIGN_OR_RETURN(const uint64_t shards, ShardCount(gguf));
  if (shards == 1) return gguf;
  return Status::Unsupported(
      fmt::format("{}: is one of {} shards, open the set by its path", ShownPath(gguf.path()), shards));
}

Result<Gguf> Gguf::OpenSplitSet(const Gguf& given, uint32_t count) {
  ES_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ShardPaths(given, count));
  ES_RETURN_IF_ERROR(CheckAllPresent(given, paths));
  Gguf whole;
  for (uint32_t i = 0; i < count; ++i) {
    ES_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, OpenFile(paths[i]));
    ES_ASSIGN_OR_RETURN(Gguf shard, GgufParser::Parse(std::move(file)));
    ES_RETURN_IF_ERROR(shard.Uint("split.count", count, count).status());
    ES_RETURN_IF_ERROR(shard.Uint("split.no", i, i).status());
    if (i == 0) {
      whole = std::move(shard);
    } else {
      ES_RETURN_IF_ERROR(whole.Join(std::move(shard)));
    }
  }
  ES_ASSIGN_OR_RETURN(const uint64_t claimed,
                      whole.UintOr("split.tensors.count", whole.tensors_.size(), 0, UINT64_MAX));
  if (claimed != whole.tensors_.size()) {
    return Status::Corrupt(fmt::format("{}: the set says it has {} tensors, its {} shards hold {}",
                                       ShownPath(whole.path_), claimed, count, whole.tensors_.size()));
  }
  return whole;
}

Status Gguf::Join(Gguf shard) {
  const auto index = static_cast<uint32_t>(shards_.size());
  for (GgufTensor& tensor : shard.tensors_) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      return Status::Corrupt(
          fmt::format("{}: tensor {} is also in another shard", ShownPath(shard.path_), Quoted(tensor.name)));
    }
    tensor.shard = index;
    tensors_.push_back(std::move(tensor));
  }
  shards_.push_back(std::move(shard.shards_[0]));
  return Status::Ok();
}

uint64_t Gguf::file_bytes() const {
  uint64_t bytes = 0;
  for (const auto& shard : shards_) bytes += shard->size();
  return bytes;
}

const GgufValue* Gguf::Find(std::string_view key) const {
  const auto it = metadata_index_.find(key);
  return it == metadata_index_.end() ? nullptr : &metadata_[it->second].second;
}

const GgufTensor* Gguf::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

Status Gguf::ReadTensor(const GgufTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
  ES_DCHECK(offset <= tensor.bytes && out.size() <= tensor.bytes - offset);
  return shards_[tensor.shard]->ReadAt(tensor.offset + offset, out);
}

Result<uint64_t> Gguf::Uint(std::string_view key, uint64_t min, uint64_t max) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(*this, key);
  const auto number = value->AsUint();
  if (number && *number >= min && *number <= max) return *number;
  return Unexpected(*this, key, *value,
                    min == max ? fmt::format("the unsigned integer {}", min)
                               : fmt::format("an unsigned integer in {}..{}", min, max));
}

Result<uint64_t> Gguf::UintOr(std::string_view key, uint64_t absent, uint64_t min, uint64_t max) const {
  if (Find(key) == nullptr) return absent;
  return Uint(key, min, max);
}

Result<double> Gguf::Float(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(*this, key);
  const auto number = value->AsFloat();
  if (number && std::isfinite(*number)) return *number;
  return Unexpected(*this, key, *value, "a finite float");
}

Result<double> Gguf::FloatOr(std::string_view key, double absent) const {
  if (Find(key) == nullptr) return absent;
  return Float(key);
}

Result<bool> Gguf::BoolOr(std::string_view key, bool absent) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return absent;
  if (const auto flag = value->AsBool()) return *flag;
  return Unexpected(*this, key, *value, "a bool");
}

Result<std::string_view> Gguf::String(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(*this, key);
  if (const auto text = value->AsString()) return *text;
  return Unexpected(*this, key, *value, "a string");
}

}  // namespace estream
