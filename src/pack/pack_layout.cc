// SPDX-License-Identifier: Apache-2.0
// Sizes follow from the plan alone; where a region lies is said by the file's tensor table.
#include "pack/pack_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/macros.h"
#include "format/weight_format.h"

namespace estream {
namespace {

void AddLayer(const ModelPlan& plan, uint32_t index, std::vector<PackRegion>* regions) {
  const LayerPlan& layer = plan.layers[index];
  regions->push_back(
      {fmt::format("blk.{}.block", index), RegionKind::kBlock, index, 0, layer.block.bytes, layer.block.bytes, 0});
  if (!layer.sparse) return;
  const uint64_t record_bytes = plan.expert_classes[layer.expert_class].record_bytes;
  regions->push_back({fmt::format("blk.{}.experts", index), RegionKind::kExperts, index, 0, plan.experts * record_bytes,
                      record_bytes, 0});
}

}  // namespace

std::vector<PackRegion> PackRegions(const ModelPlan& plan) {
  const uint64_t row_bytes = RowBytes(plan.embedding.format, plan.embedding.hidden);
  std::vector<PackRegion> regions;
  regions.push_back({"embedding", RegionKind::kEmbedding, 0, 0,
                     AlignUp(plan.embedding_rows.rows * row_bytes, kPageBytes), kHashUnitBytes, 0});
  for (uint32_t l = 0; l < plan.layers.size(); ++l) AddLayer(plan, l, &regions);
  const uint64_t norm_bytes = plan.final_record.bytes;
  regions.push_back({"output_norm", RegionKind::kFinalNorm, 0, 0, norm_bytes, norm_bytes, 0});
  regions.push_back({"output", RegionKind::kHead, 0, 0, plan.head_record.bytes, kHashUnitBytes, 0});

  uint64_t unit = 0;
  for (PackRegion& region : regions) {
    region.first_unit = unit;
    unit += region.units();
  }
  return regions;
}

uint64_t UnitCount(const std::vector<PackRegion>& regions) {
  return regions.back().first_unit + regions.back().units();
}

const PackRegion& RegionOfUnit(const std::vector<PackRegion>& regions, uint64_t unit) {
  const auto after = std::upper_bound(regions.begin(), regions.end(), unit,
                                      [](uint64_t u, const PackRegion& region) { return u < region.first_unit; });
  ES_CHECK(after != regions.begin());
  return *(after - 1);
}

uint64_t BytesBefore(const std::vector<PackRegion>& regions, uint64_t unit) {
  uint64_t bytes = 0;
  for (const PackRegion& region : regions) {
    if (region.first_unit >= unit) break;
    bytes += std::min(region.bytes, (unit - region.first_unit) * region.unit_bytes);
  }
  return bytes;
}

std::string UnitName(const ModelPlan& plan, const std::vector<PackRegion>& regions, uint64_t unit) {
  const PackRegion& region = RegionOfUnit(regions, unit);
  const uint64_t index = unit - region.first_unit;
  if (region.kind == RegionKind::kExperts) {
    return ExpertRecord(plan, region.layer, static_cast<uint32_t>(index)).name;
  }
  if (region.units() == 1) return region.name;
  const uint64_t first = index * region.unit_bytes;
  return fmt::format("{}[{}] (bytes {}..{})", region.name, index, first,
                     std::min(first + region.unit_bytes, region.bytes) - 1);
}

}  // namespace estream
