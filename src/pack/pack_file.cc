// SPDX-License-Identifier: Apache-2.0
// The plan is made anew from the stored keys; the file must then hold exactly what the plan asks for.
#include "pack/pack_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "family/family.h"
#include "format/quote.h"
#include "pack/direct_file.h"
#include "pack/unit_pipeline.h"

namespace estream {

Result<PackFile> PackFile::Open(const std::string& path) {
  ES_ASSIGN_OR_RETURN(std::shared_ptr<const DirectFile> file, DirectFile::Open(path));
  return Open(std::move(file));
}

Result<PackFile> PackFile::Open(std::shared_ptr<const RandomAccessFile> file) {
  PackFile pack;
  ES_ASSIGN_OR_RETURN(pack.gguf_, Gguf::Open(std::move(file)));
  ES_ASSIGN_OR_RETURN(pack.keys_, ReadPackKeys(pack.gguf_));
  ES_ASSIGN_OR_RETURN(pack.plan_, PlanModel(pack.gguf_, pack.keys_.architecture, pack.keys_.tensors));
  ES_RETURN_IF_ERROR(ReadExpertOrder(pack.gguf_, &pack.plan_));
  ES_RETURN_IF_ERROR(pack.PlaceRegions());
  ES_ASSIGN_OR_RETURN(pack.hashes_, ReadPackHashes(pack.gguf_, UnitCount(pack.regions_)));
  for (const LayerPlan& layer : pack.plan_.layers) {
    std::vector<uint32_t>& positions = pack.positions_.emplace_back(layer.expert_order.size());
    for (uint32_t p = 0; p < positions.size(); ++p) positions[layer.expert_order[p]] = p;
  }
  return pack;
}

Status PackFile::PlaceRegions() {
  regions_ = PackRegions(plan_);
  uint64_t end = 0;
  for (PackRegion& region : regions_) {
    const GgufTensor* tensor = gguf_.FindTensor(region.name);
    const auto bad = [&](const std::string& problem) {
      return Status::Corrupt(fmt::format("{}: tensor \"{}\" {}", ShownPath(path()), region.name, problem));
    };
    if (tensor == nullptr) return bad("is missing");
    if (tensor->bytes != region.bytes) {
      return bad(fmt::format("has {} bytes, expected {}", tensor->bytes, region.bytes));
    }
    if (tensor->offset % kPageBytes != 0) return bad(fmt::format("begins at byte {}, inside a page", tensor->offset));
    if (tensor->offset < end) return bad(fmt::format("begins at byte {}, out of order", tensor->offset));
    region.offset = tensor->offset;
    end = region.end();
  }
  return Status::Ok();
}

const PackRegion& PackFile::Region(RegionKind kind, uint32_t layer) const {
  const auto found = std::find_if(regions_.begin(), regions_.end(),
                                  [&](const PackRegion& r) { return r.kind == kind && r.layer == layer; });
  ES_CHECK(found != regions_.end());
  return *found;
}

PackFile::Extent PackFile::block(uint32_t layer) const {
  const PackRegion& region = Region(RegionKind::kBlock, layer);
  return {region.offset, region.bytes};
}

PackFile::Experts PackFile::experts(uint32_t layer) const {
  const PackRegion& region = Region(RegionKind::kExperts, layer);
  return {region.offset, region.unit_bytes};
}

PackFile::Extent PackFile::final_norm() const {
  const PackRegion& region = Region(RegionKind::kFinalNorm, 0);
  return {region.offset, region.bytes};
}

PackFile::Extent PackFile::head() const {
  const PackRegion& region = Region(RegionKind::kHead, 0);
  return {region.offset, region.bytes};
}

PackFile::Extent PackFile::embedding() const {
  const PackRegion& region = Region(RegionKind::kEmbedding, 0);
  return {region.offset, region.bytes};
}

uint32_t PackFile::PositionOf(uint32_t layer, uint32_t expert) const {
  return positions_[layer].empty() ? expert : positions_[layer][expert];
}

std::optional<PackFile::Extent> PackFile::Find(std::string_view record_name) const {
  const auto id = FindRecord(plan_, record_name);
  if (!id) return std::nullopt;
  switch (id->kind) {
    case RecordKind::kBlock:
      return block(id->layer);
    case RecordKind::kFinalNorm:
      return final_norm();
    case RecordKind::kHead:
      return head();
    case RecordKind::kExpert:
      break;
  }
  const Experts e = experts(id->layer);
  return Extent{e.offset + PositionOf(id->layer, id->expert) * e.record_bytes, e.record_bytes};
}

Status PackFile::VerifyHeader(std::vector<std::string>* bad) const {
  const uint64_t end = regions_.front().offset, hash_begin = hashes_.header_offset;
  const uint64_t hash_end = hash_begin + sizeof(Hash128);
  HashStream hash;
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < end; at += piece.size()) {
    const uint64_t piece_end = at < hash_begin ? hash_begin : at < hash_end ? hash_end : end;
    piece.resize(std::min(kHashUnitBytes, piece_end - at));
    if (at == hash_begin) {
      std::fill(piece.begin(), piece.end(), std::byte{0});
    } else {
      ES_RETURN_IF_ERROR(file().ReadAt(at, piece));
    }
    hash.Update(piece);
  }
  if (hash.Finish() != hashes_.header) bad->push_back("the header");
  if (file().size() != bytes()) {
    bad->push_back(fmt::format("its end ({} bytes behind the last tensor)", file().size() - bytes()));
  }
  return Status::Ok();
}

Status PackFile::Verify(const VerifyOptions& options, std::vector<std::string>* bad) const {
  std::vector<std::string> found;
  ES_RETURN_IF_ERROR(VerifyHeader(&found));
  uint64_t done = 0, total = 0;
  for (const PackRegion& region : regions_) total += region.bytes;
  UnitPipeline pipeline{.regions = regions_, .threads = PipelineThreads(options.threads)};
  pipeline.fill = [&](uint32_t, const PackWindow& window, std::span<std::byte> out) {
    return file().ReadAt(regions_[window.region].offset + window.first, out);
  };
  pipeline.on_unit = [&](uint64_t unit, const Hash128& hash) {
    if (hash != hashes_.units[unit]) found.push_back(UnitName(plan_, regions_, unit));
    return true;
  };
  pipeline.on_progress = [&](uint64_t bytes) {
    done += bytes;
    if (options.progress) options.progress(done, total);
  };
  pipeline.cancel = options.cancel;
  ES_RETURN_IF_ERROR(pipeline.Run());
  if (bad != nullptr) *bad = found;
  if (found.empty()) return Status::Ok();
  const size_t shown = std::min<size_t>(3, found.size());
  const std::string more = found.size() > shown ? fmt::format(" and {} more", found.size() - shown) : "";
  return Status::Corrupt(fmt::format("{}: is damaged in {}{}", ShownPath(path()),
                                     fmt::join(found.begin(), found.begin() + static_cast<ptrdiff_t>(shown), ", "),
                                     more));
}

Status PackFile::CheckSource(const std::string& source_path) const {
  ES_ASSIGN_OR_RETURN(const Gguf source, Gguf::Open(source_path));
  ES_ASSIGN_OR_RETURN(const SourceIdentity now, IdentifySource(source));
  const SourceIdentity& then = keys_.source;
  const auto stale = [&](const std::string& why) {
    return Status::Corrupt(fmt::format("{}: does not belong to {}, which {}; pack it anew", ShownPath(path()),
                                       ShownPath(source_path), why));
  };
  if (now.bytes != then.bytes) return stale(fmt::format("has {} bytes, the packed one had {}", now.bytes, then.bytes));
  if (now.header_hash != then.header_hash) return stale("has another header than the packed one");
  const bool from_pipe = then.mtime_ns == 0;
  if (!from_pipe && now.mtime_ns != then.mtime_ns) return stale("was changed after it was packed");
  return Status::Ok();
}

}  // namespace estream
