// SPDX-License-Identifier: Apache-2.0
// Cuts memory into banks.
#include "residency/bank_arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"

namespace estream {

Result<BankArena> BankArena::Create(std::span<std::byte> memory, uint32_t slots, uint64_t slot_stride) {
  const bool aligned = reinterpret_cast<uintptr_t>(memory.data()) % kPageBytes == 0 && slot_stride % kPageBytes == 0;
  if (!aligned || slots == 0 || slot_stride == 0) {
    return Status::InvalidArgument(
        fmt::format("an arena of {} slots of {} bytes: needs page-aligned memory, at least one "
                    "slot, and slots of whole pages of {} bytes",
                    slots, slot_stride, kPageBytes));
  }
  const auto bank_bytes = CheckedMul(slots, slot_stride);
  if (!bank_bytes || *bank_bytes > memory.size()) {
    return Status::InvalidArgument(fmt::format("an arena of {} bytes cannot hold one bank of {} slots of {} bytes",
                                               memory.size(), slots, slot_stride));
  }
  // Slot indices are 32-bit (Φ in descriptions); more banks than that allows would never be used.
  const uint64_t banks = std::min<uint64_t>(memory.size() / *bank_bytes, INT32_MAX / slots);
  return BankArena{memory.data(), slot_stride, static_cast<uint32_t>(banks), slots};
}

}  // namespace estream
