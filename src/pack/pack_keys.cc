// SPDX-License-Identifier: Apache-2.0
// A pack is as untrusted as any file: types, lengths and values are looked at before anything is built from them.
#include "pack/pack_keys.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/checked_math.h"
#include "base/macros.h"
#include "format/gguf_types.h"
#include "format/little_endian.h"
#include "format/quote.h"
#include "pack/pack_layout.h"

namespace estream {
namespace {

Status Bad(const Gguf& pack, const char* key, const std::string& problem) {
  return Status::Corrupt(fmt::format("{}: key {} {}", ShownPath(pack.path()), Quoted(key), problem));
}

// The array `key` of `count` elements of type `element`; any number when `count` is nothing.
Result<const GgufValue*> FindArray(const Gguf& pack, const char* key, GgufValueType element,
                                   std::optional<uint64_t> count) {
  const GgufValue* value = pack.Find(key);
  if (value == nullptr) return Bad(pack, key, "is missing");
  if (value->type() != GgufValueType::kArray || value->element_type() != element) {
    return Bad(pack, key, fmt::format("is not an array of {}", GgufValueTypeName(element)));
  }
  if (count && value->count() != *count) {
    return Bad(pack, key, fmt::format("has {} elements, expected {}", value->count(), *count));
  }
  return value;
}

// Sets shape and size from four dimensions, unused ones 0. Errors without a file's name.
Status SetShape(const std::byte* dims, GgufTensor* tensor) {
  for (uint32_t d = 0; d < 4; ++d) {
    const auto dim = LoadLe<uint64_t>(dims + 8 * d);
    if (dim == 0) continue;
    if (d != tensor->dimensions) return Status::Corrupt("has a dimension of 0");
    tensor->dims[d] = dim;
    tensor->dimensions = d + 1;
  }
  if (tensor->dimensions == 0) return Status::Corrupt("has no dimensions");
  const GgufTypeTraits* type = FindGgufType(tensor->gguf_type);
  if (type == nullptr || type->block_elements == 0) {
    return Status::Corrupt(fmt::format("has unknown type {}", tensor->gguf_type));
  }
  if (tensor->cols() % type->block_elements != 0) return Status::Corrupt("has rows that are not whole blocks");
  std::optional<uint64_t> bytes = CheckedMul(tensor->cols() / type->block_elements, type->block_bytes);
  std::optional<uint64_t> values = tensor->cols();
  for (uint32_t d = 1; d < 4; ++d) {
    if (bytes) bytes = CheckedMul(*bytes, tensor->dims[d]);
    if (values) values = CheckedMul(*values, tensor->dims[d]);
  }
  if (!bytes || !values) return Status::Corrupt("has dimensions whose product does not fit 64 bits");
  tensor->bytes = *bytes;
  return Status::Ok();
}

Result<std::vector<GgufTensor>> ReadSourceTable(const Gguf& pack) {
  ES_ASSIGN_OR_RETURN(const GgufValue* names,
                      FindArray(pack, pack_keys::kTensorNames, GgufValueType::kString, std::nullopt));
  const uint64_t count = names->count();
  ES_ASSIGN_OR_RETURN(const GgufValue* types, FindArray(pack, pack_keys::kTensorTypes, GgufValueType::kU32, count));
  ES_ASSIGN_OR_RETURN(const GgufValue* dims, FindArray(pack, pack_keys::kTensorDims, GgufValueType::kU64, 4 * count));
  const std::vector<std::string_view> texts = *names->Strings();
  std::vector<GgufTensor> tensors(count);
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor& tensor = tensors[i];
    tensor.name = texts[i];
    tensor.gguf_type = LoadLe<uint32_t>(types->bytes().data() + 4 * i);
    const Status status = SetShape(dims->bytes().data() + 32 * i, &tensor);
    if (!status.ok()) {
      return Bad(pack, pack_keys::kTensorDims,
                 fmt::format("says: tensor {} {}", Quoted(tensor.name), status.message()));
    }
  }
  return tensors;
}

Result<SourceIdentity> ReadIdentity(const Gguf& pack) {
  SourceIdentity source;
  ES_ASSIGN_OR_RETURN(const std::string_view file, pack.String(pack_keys::kFile));
  ES_ASSIGN_OR_RETURN(source.bytes, pack.Uint(pack_keys::kBytes, 0, INT64_MAX));
  const GgufValue* modified = pack.Find(pack_keys::kMtime);
  if (modified == nullptr || modified->type() != GgufValueType::kI64) {
    return Bad(pack, pack_keys::kMtime, modified == nullptr ? "is missing" : "is not an i64");
  }
  source.mtime_ns = *modified->AsInt();
  ES_ASSIGN_OR_RETURN(const std::string_view header_hash, pack.String(pack_keys::kHeaderHash));
  source.file = file;
  source.header_hash = header_hash;
  return source;
}

// Where the elements of the array `key` begin in the file: what comes before it has been parsed, so its size is known.
uint64_t ArrayOffset(const Gguf& pack, std::string_view key) {
  uint64_t at = 4 + 4 + 8 + 8;  // magic, version, counts
  for (const auto& [name, value] : pack.metadata()) {
    at += 8 + name.size() + 4 + (value.type() == GgufValueType::kArray ? 4 + 8 : 0);
    if (name == key) return at;
    at += value.bytes().size();
  }
  return at;
}

}  // namespace

Result<PackKeys> ReadPackKeys(const Gguf& pack) {
  ES_ASSIGN_OR_RETURN(const std::string_view architecture, pack.String("general.architecture"));
  if (architecture != kPackArchitecture) {
    return Status::InvalidArgument(
        fmt::format("{}: is a model file of architecture {}, not a pack; estream pack makes one",
                    ShownPath(pack.path()), Quoted(architecture)));
  }
  ES_ASSIGN_OR_RETURN(const uint64_t version, pack.Uint(pack_keys::kVersion, 0, UINT32_MAX));
  if (version != kPackVersion) {
    return Status::Unsupported(
        fmt::format("{}: is a pack of version {}, this program reads version {}; pack the model anew",
                    ShownPath(pack.path()), version, kPackVersion));
  }
  PackKeys keys;
  ES_ASSIGN_OR_RETURN(const std::string_view source, pack.String(pack_keys::kArchitecture));
  keys.architecture = source;
  ES_ASSIGN_OR_RETURN(keys.source, ReadIdentity(pack));
  ES_ASSIGN_OR_RETURN(keys.tensors, ReadSourceTable(pack));
  return keys;
}

Status CheckPermutation(const std::vector<uint32_t>& order) {
  std::vector<bool> seen(order.size(), false);
  for (const uint32_t expert : order) {
    if (expert >= order.size()) {
      return Status::Corrupt(fmt::format("holds {}, expected 0..{}", expert, order.size() - 1));
    }
    if (seen[expert]) return Status::Corrupt(fmt::format("holds {} twice", expert));
    seen[expert] = true;
  }
  return Status::Ok();
}

Status ReadExpertOrder(const Gguf& pack, ModelPlan* plan) {
  if (pack.Find(pack_keys::kOrder) == nullptr) return Status::Ok();
  const std::vector<uint32_t>& layers = plan->sparse_layers;
  ES_ASSIGN_OR_RETURN(const GgufValue* value,
                      FindArray(pack, pack_keys::kOrder, GgufValueType::kU32, uint64_t{plan->experts} * layers.size()));
  const std::byte* at = value->bytes().data();
  for (const uint32_t l : layers) {
    std::vector<uint32_t> order(plan->experts);
    for (uint32_t& expert : order) {
      expert = LoadLe<uint32_t>(at);
      at += sizeof(uint32_t);
    }
    const Status status = CheckPermutation(order);
    if (!status.ok()) return Bad(pack, pack_keys::kOrder, fmt::format("of layer {} {}", l, status.message()));
    plan->layers[l].expert_order = std::move(order);
  }
  return Status::Ok();
}

Result<PackHashes> ReadPackHashes(const Gguf& pack, uint64_t units) {
  ES_ASSIGN_OR_RETURN(const GgufValue* of_units,
                      FindArray(pack, pack_keys::kUnitHashes, GgufValueType::kU64, 2 * units));
  ES_ASSIGN_OR_RETURN(const GgufValue* of_header, FindArray(pack, pack_keys::kPackHeaderHash, GgufValueType::kU64, 2));
  PackHashes hashes;
  hashes.units.resize(units);
  for (uint64_t u = 0; u < units; ++u) {
    hashes.units[u] = LoadLe<Hash128>(of_units->bytes().data() + u * sizeof(Hash128));
  }
  hashes.header = LoadLe<Hash128>(of_header->bytes().data());
  hashes.header_offset = ArrayOffset(pack, pack_keys::kPackHeaderHash);
  return hashes;
}

}  // namespace estream
