// SPDX-License-Identifier: Apache-2.0
// Units follow each other inside a region; the last one may be short.
#include "pack/check_units.h"

#include <fmt/format.h>

#include <algorithm>

#include "format/quote.h"

namespace estream {

const PackRegion& PackRegionAt(const PackFile& pack, uint64_t offset) {
  const auto& regions = pack.regions();
  return *std::find_if(regions.begin(), regions.end(), [&](const PackRegion& r) { return offset < r.end(); });
}

Status CheckPackUnits(const PackFile& pack, uint64_t offset, std::span<const std::byte> bytes) {
  const PackRegion& region = PackRegionAt(pack, offset);
  uint64_t unit = region.first_unit + (offset - region.offset) / region.unit_bytes;
  for (; !bytes.empty(); ++unit) {
    const auto take = static_cast<size_t>(std::min<uint64_t>(region.unit_bytes, bytes.size()));
    if (HashOf(bytes.first(take)) != pack.unit_hash(unit)) {
      return Status::Corrupt(
          fmt::format("{}: is damaged in {}", ShownPath(pack.path()), UnitName(pack.plan(), pack.regions(), unit)));
    }
    bytes = bytes.subspan(take);
  }
  return Status::Ok();
}

}  // namespace estream
