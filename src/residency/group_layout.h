// SPDX-License-Identifier: Apache-2.0
// Which group and rank an expert has, and where its group stands in the file.                         (§3.3, eq. 4)
#pragma once

#include <cstdint>

#include "estream/status.h"

namespace estream {

// A stretch of a file.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;

  bool operator==(const ByteRange&) const = default;
};

// The routed experts of one layer, in pack order π, cut into groups of G consecutive records; the last one may be
// short. G is a property of reading: one pack serves every G.
struct GroupLayout {
  uint64_t first_offset = 0;  // file offset of the record at position 0
  uint64_t record_bytes = 0;  // W_e of the layer's shape class; records follow each other without gaps
  uint32_t experts = 0;       // N_e
  uint32_t group_size = 0;    // G

  // Errors: InvalidArgument when a count is zero, an offset or size is no multiple of the page size, or the last byte
  // has no 64-bit offset.
  static Result<GroupLayout> Create(uint64_t first_offset, uint64_t record_bytes, uint32_t experts,
                                    uint32_t group_size);

  // With p = π(e) < experts:  q(e) = ⌊p / G⌋,  r(e) = p mod G.
  uint32_t group_of(uint32_t position) const { return position / group_size; }
  uint32_t rank_of(uint32_t position) const { return position % group_size; }

  uint32_t group_count() const { return (experts - 1) / group_size + 1; }
  uint32_t experts_in(uint32_t group) const {
    const uint32_t rest = experts - group * group_size;
    return rest < group_size ? rest : group_size;
  }
  // The one contiguous read that fills a bank.
  ByteRange range(uint32_t group) const {
    return {first_offset + uint64_t{group} * group_size * record_bytes, experts_in(group) * record_bytes};
  }
};

}  // namespace estream
