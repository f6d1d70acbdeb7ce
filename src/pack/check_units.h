// SPDX-License-Identifier: Apache-2.0
// Bytes read from a pack against the hashes stored in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "estream/status.h"
#include "pack/pack_file.h"

namespace estream {

// The region that holds the byte at `offset` of the file. Pre: there is one.
const PackRegion& PackRegionAt(const PackFile& pack, uint64_t offset);

// Compares the hashes of the units that `bytes`, whole units of one region from `offset` on, hold.
// Errors: Corrupt, naming the first that differs.
Status CheckPackUnits(const PackFile& pack, uint64_t offset, std::span<const std::byte> bytes);

}  // namespace estream
