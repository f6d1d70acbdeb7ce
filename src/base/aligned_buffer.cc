// SPDX-License-Identifier: Apache-2.0
// mmap rather than aligned_alloc: memory goes back to the system at once, and never comes from a malloc arena.
#include "base/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/checked_math.h"

namespace estream {

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& o) noexcept {
  if (this != &o) {
    Reset();
    data_ = std::exchange(o.data_, nullptr);
    bytes_ = std::exchange(o.bytes_, 0);
  }
  return *this;
}

Result<AlignedBuffer> AlignedBuffer::Allocate(uint64_t bytes) {
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  const auto rounded = CheckedAlignUp(bytes, kPageBytes);
  void* p = MAP_FAILED;
  if (rounded) p = mmap(nullptr, *rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return Status::OverBudget(fmt::format("no memory for a buffer of {} bytes", bytes));
  buffer.data_ = static_cast<std::byte*>(p);
  buffer.bytes_ = *rounded;
  return buffer;
}

void AlignedBuffer::PreferHugePages() {
  if (data_ != nullptr) madvise(data_, bytes_, MADV_HUGEPAGE);
}

void AlignedBuffer::Reset() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace estream
