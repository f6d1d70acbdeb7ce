// SPDX-License-Identifier: Apache-2.0
// The fixed memory that records stream through: B banks of G slots, record-major.                            (§3.3)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "estream/status.h"

namespace estream {

// Geometry over memory that the caller owns (a device buffer); M_arena = B · G · W_e with W_e the largest record of any
// shape class.
//
// Slots are record-major, so one contiguous read fills a bank: slot s of bank b begins at (b · G + s) · slot_stride. A
// layer whose records are smaller than slot_stride keeps them as close in its bank as they are in the file: record r
// begins at bank_offset(b) + r · record_bytes. So an invocation binds a bank (arena = bank_offset, slot_stride =
// record_bytes, slot = rank); eq. 4's global slot b · G + r is the same place when record_bytes == slot_stride.
struct BankArena {
  std::byte* base = nullptr;
  uint64_t slot_stride = 0;  // W_e
  uint32_t banks = 0;        // B
  uint32_t slots = 0;        // G, per bank

  // As many banks as fit `memory`.
  //
  // Errors: InvalidArgument when not one bank fits, a size is zero, or memory or stride is not page-aligned.
  static Result<BankArena> Create(std::span<std::byte> memory, uint32_t slots, uint64_t slot_stride);

  uint64_t bank_bytes() const { return slots * slot_stride; }
  uint64_t bank_offset(uint32_t bank) const { return bank * bank_bytes(); }
  std::span<std::byte> bank_memory(uint32_t bank) const { return {base + bank_offset(bank), bank_bytes()}; }
  // Φ of eq. 4.
  uint32_t slot_index(uint32_t bank, uint32_t rank) const { return bank * slots + rank; }
  std::byte* address(uint32_t bank, uint32_t slot) const { return base + slot_index(bank, slot) * slot_stride; }
};

}  // namespace estream
