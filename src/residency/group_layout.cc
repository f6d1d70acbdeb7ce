// SPDX-License-Identifier: Apache-2.0
// Checks a layer's layout once, so that its arithmetic needs no checks.
#include "residency/group_layout.h"

#include <fmt/format.h>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"

namespace estream {

Result<GroupLayout> GroupLayout::Create(uint64_t first_offset, uint64_t record_bytes, uint32_t experts,
                                        uint32_t group_size) {
  if (experts == 0 || group_size == 0 || record_bytes == 0) {
    return Status::InvalidArgument(fmt::format("a layer of {} experts of {} bytes in groups of {}: none may be zero",
                                               experts, record_bytes, group_size));
  }
  if (first_offset % kPageBytes != 0 || record_bytes % kPageBytes != 0) {
    return Status::InvalidArgument(fmt::format("records of {} bytes from offset {}: both must be multiples of {}",
                                               record_bytes, first_offset, kPageBytes));
  }
  const auto bytes = CheckedMul(experts, record_bytes);
  const auto end = bytes ? CheckedAdd(first_offset, *bytes) : std::nullopt;
  if (!end || *end > static_cast<uint64_t>(INT64_MAX)) {
    return Status::InvalidArgument(
        fmt::format("{} records of {} bytes from offset {} end beyond any file", experts, record_bytes, first_offset));
  }
  return GroupLayout{first_offset, record_bytes, experts, group_size};
}

}  // namespace estream
