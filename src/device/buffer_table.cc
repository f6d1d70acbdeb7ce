// SPDX-License-Identifier: Apache-2.0
// A map by number: buffers are few and live long, look-ups happen a handful of times a call.
#include "device/buffer_table.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/checked_math.h"
#include "base/macros.h"

namespace estream {

Result<DeviceBuffer> BufferTable::Allocate(uint64_t bytes, std::string_view name) {
  if (bytes == 0) return Status::InvalidArgument(fmt::format("buffer \"{:.80}\" has zero bytes", name));
  auto memory = AlignedBuffer::Allocate(bytes);
  if (!memory.ok()) return memory.status().WithPrefix(fmt::format("buffer \"{:.80}\": ", name));
  Entry entry;
  entry.memory = std::move(memory).value();
  entry.bytes = bytes;
  entry.hold = MemoryLedger::Hold(ledger_, std::string(name), entry.memory.bytes());
  const DeviceBuffer buffer{++last_id_, entry.memory.data(), bytes};
  entries_.emplace(buffer.id, std::move(entry));
  return buffer;
}

void BufferTable::Free(const DeviceBuffer& buffer) { entries_.erase(buffer.id); }

Result<std::byte*> BufferTable::Resolve(const BufferRef& ref, uint64_t bytes) const {
  const auto found = entries_.find(ref.buffer);
  if (found == entries_.end()) return Status::InvalidArgument(fmt::format("there is no device buffer {}", ref.buffer));
  const Entry& entry = found->second;
  const auto end = CheckedAdd(ref.offset, bytes);
  if (!end || *end > entry.bytes) {
    return Status::InvalidArgument(fmt::format("{} bytes at offset {} leave device buffer {}, which has {} bytes",
                                               bytes, ref.offset, ref.buffer, entry.bytes));
  }
  return entry.memory.data() + ref.offset;
}

}  // namespace estream
