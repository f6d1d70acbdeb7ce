// SPDX-License-Identifier: Apache-2.0
// What a pack consists of: regions, one GGUF tensor each, cut into units that have a hash each.
//
// Regions in file order:  embedding;  blk.N.block and blk.N.experts for every layer;  output_norm;  output.
// A unit is an expert record, a whole block record, the whole final norm, or 1 MiB of the embedding and of the head
// (the last one shorter). Regions are whole pages. Units are counted through the whole pack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "family/model_plan.h"

namespace estream {

inline constexpr uint32_t kPackVersion = 1;
inline constexpr uint64_t kPackAlignment = 4096;
inline constexpr uint64_t kHashUnitBytes = 1 << 20;  // of embedding and head
inline constexpr const char* kPackArchitecture = "estream";

enum class RegionKind { kEmbedding, kBlock, kExperts, kFinalNorm, kHead };

struct PackRegion {
  std::string name;  // of its tensor
  RegionKind kind = RegionKind::kBlock;
  uint32_t layer = 0;       // kBlock, kExperts
  uint64_t offset = 0;      // in the file
  uint64_t bytes = 0;       // a multiple of the page size
  uint64_t unit_bytes = 0;  // of all units but perhaps the last
  uint64_t first_unit = 0;

  uint64_t units() const { return (bytes + unit_bytes - 1) / unit_bytes; }
  uint64_t end() const { return offset + bytes; }
};

// The regions of a pack of `plan`, in file order, their offsets not yet set.
std::vector<PackRegion> PackRegions(const ModelPlan& plan);

uint64_t UnitCount(const std::vector<PackRegion>& regions);

// The region that holds `unit`. Pre: unit < UnitCount(regions).
const PackRegion& RegionOfUnit(const std::vector<PackRegion>& regions, uint64_t unit);

// Bytes of all regions before `unit`.
uint64_t BytesBefore(const std::vector<PackRegion>& regions, uint64_t unit);

// What a message calls a unit: "blk.3.block", "blk.3.expert.17" (the index in the source), "output[2] (bytes
// 2097152..3145727)".
std::string UnitName(const ModelPlan& plan, const std::vector<PackRegion>& regions, uint64_t unit);

}  // namespace estream
