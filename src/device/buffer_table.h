// SPDX-License-Identifier: Apache-2.0
// The buffers of a device whose memory is the host's: numbers, addresses, range checks.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "base/aligned_buffer.h"
#include "base/ledger.h"
#include "device/device.h"

namespace estream {

// Buffers are numbered from 1 in order of allocation; a number is never used again, so that a stale BufferRef is
// refused instead of reaching somebody else's bytes.
//
// Threads: one at a time, like the device that owns it.
class BufferTable {
 public:
  // Allocations are registered in `ledger` when there is one.
  explicit BufferTable(MemoryLedger* ledger) : ledger_(ledger) {}

  // Zeroed, page-aligned memory. Errors: InvalidArgument for zero bytes; OverBudget, naming the buffer.
  Result<DeviceBuffer> Allocate(uint64_t bytes, std::string_view name);

  // Gives the memory back; a buffer that is not in the table is ignored.
  void Free(const DeviceBuffer& buffer);

  // The address of [ref.offset, ref.offset + bytes). Errors: InvalidArgument when there is no such buffer or the range
  // leaves it.
  Result<std::byte*> Resolve(const BufferRef& ref, uint64_t bytes) const;

 private:
  struct Entry {
    AlignedBuffer memory;
    uint64_t bytes = 0;  // as asked for; memory is rounded up to pages
    MemoryLedger::Hold hold;
  };

  MemoryLedger* const ledger_;
  std::map<uint32_t, Entry> entries_;
  uint32_t last_id_ = 0;
};

}  // namespace estream
