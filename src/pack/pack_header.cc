// SPDX-License-Identifier: Apache-2.0
// The hashes are the last two keys, so that their places are found from the end of the metadata.
#include "pack/pack_header.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/macros.h"
#include "format/gguf_writer.h"
#include "format/little_endian.h"
#include "pack/pack_keys.h"

namespace estream {
namespace {

constexpr uint32_t kI8 = 24;  // GGUF type id of the regions
constexpr char kMagic[] = {'G', 'G', 'U', 'F'};
constexpr char kUnfinishedMagic[] = {'E', 'S', 'T', '?'};

void PutSourceTable(const Gguf& source, GgufWriter* writer) {
  std::vector<std::string> names;
  std::vector<uint32_t> types;
  std::vector<uint64_t> dims;
  for (const GgufTensor& tensor : source.tensors()) {
    names.push_back(tensor.name);
    types.push_back(tensor.gguf_type);
    for (uint32_t d = 0; d < 4; ++d) dims.push_back(d < tensor.dimensions ? tensor.dims[d] : 0);
  }
  writer->SetStrings(pack_keys::kTensorNames, names);
  writer->SetArray(pack_keys::kTensorTypes, std::span<const uint32_t>(types));
  writer->SetArray(pack_keys::kTensorDims, std::span<const uint64_t>(dims));
}

// No key for the identity: a pack without an order is one whose experts stand as in the source.
void PutOrder(const ModelPlan& plan, GgufWriter* writer) {
  std::vector<uint32_t> order;
  for (const uint32_t l : plan.sparse_layers) {
    const std::vector<uint32_t>& of_layer = plan.layers[l].expert_order;
    order.insert(order.end(), of_layer.begin(), of_layer.end());
  }
  if (!order.empty()) writer->SetArray(pack_keys::kOrder, std::span<const uint32_t>(order));
}

bool IsDropped(std::string_view key) {
  return key == "general.architecture" || key.starts_with("split.") || key.starts_with(pack_keys::kPrefix);
}

// Where the elements of the array `key`, one of the last keys, begin in `header`.
uint64_t ArrayOffset(std::span<const std::byte> header, std::string_view key) {
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  const size_t at = text.rfind(key);
  ES_CHECK(at != std::string_view::npos);
  return at + key.size() + 4 + 4 + 8;  // value type, element type, count
}

}  // namespace

PackHeader PackHeader::Build(const Gguf& source, const ModelPlan& plan, const SourceIdentity& identity,
                             std::vector<PackRegion>* regions) {
  GgufWriter writer(kPackAlignment);
  writer.SetString("general.architecture", kPackArchitecture);
  for (const auto& [key, value] : source.metadata()) {
    if (!IsDropped(key)) writer.SetValue(key, value);
  }
  writer.SetU32(pack_keys::kVersion, kPackVersion);
  writer.SetString(pack_keys::kArchitecture, plan.architecture);
  writer.SetString(pack_keys::kFile, identity.file);
  writer.SetU64(pack_keys::kBytes, identity.bytes);
  writer.SetI64(pack_keys::kMtime, identity.mtime_ns);
  writer.SetString(pack_keys::kHeaderHash, identity.header_hash);
  PutSourceTable(source, &writer);
  PutOrder(plan, &writer);
  const std::vector<uint64_t> zeros(2 * UnitCount(*regions), 0);
  writer.SetArray(pack_keys::kUnitHashes, std::span<const uint64_t>(zeros));
  writer.SetArray(pack_keys::kPackHeaderHash, std::span<const uint64_t>(zeros).first(2));
  for (PackRegion& region : *regions) region.offset = writer.AddTensor(region.name, std::span(&region.bytes, 1), kI8);

  PackHeader header;
  header.bytes_ = writer.Header();
  for (PackRegion& region : *regions) region.offset += header.bytes_.size();
  header.file_bytes_ = header.bytes_.size() + writer.data_bytes();
  header.unit_hashes_ = ArrayOffset(header.bytes_, pack_keys::kUnitHashes);
  header.unit_hash_bytes_ = zeros.size() * sizeof(uint64_t);
  header.header_hash_ = ArrayOffset(header.bytes_, pack_keys::kPackHeaderHash);
  return header;
}

Hash128 PackHeader::unit_hash(uint64_t unit) const {
  return LoadLe<Hash128>(bytes_.data() + unit_hashes_ + unit * sizeof(Hash128));
}

void PackHeader::set_unit_hash(uint64_t unit, const Hash128& hash) {
  ES_DCHECK((unit + 1) * sizeof(Hash128) <= unit_hash_bytes_);
  std::memcpy(bytes_.data() + unit_hashes_ + unit * sizeof(Hash128), &hash, sizeof(Hash128));
}

bool PackHeader::AdoptHashes(std::span<const std::byte> other) {
  ES_CHECK(other.size() == bytes_.size());
  const auto equal = [&](uint64_t begin, uint64_t end) {
    return std::equal(bytes_.begin() + begin, bytes_.begin() + end, other.begin() + begin);
  };
  const uint64_t units_end = unit_hashes_ + unit_hash_bytes_;
  if (!equal(sizeof(kMagic), unit_hashes_) || !equal(units_end, header_hash_) ||
      !equal(header_hash_ + sizeof(Hash128), bytes_.size())) {
    return false;
  }
  std::copy_n(other.begin() + unit_hashes_, unit_hash_bytes_, bytes_.begin() + unit_hashes_);
  return true;
}

void PackHeader::MarkUnfinished() { std::memcpy(bytes_.data(), kUnfinishedMagic, sizeof(kMagic)); }

void PackHeader::MarkWhole() {
  std::memcpy(bytes_.data(), kMagic, sizeof(kMagic));
  std::memset(bytes_.data() + header_hash_, 0, sizeof(Hash128));
  const Hash128 hash = HashOf(bytes_);
  std::memcpy(bytes_.data() + header_hash_, &hash, sizeof(hash));
}

}  // namespace estream
