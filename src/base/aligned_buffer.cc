// SPDX-License-Identifier: Apache-2.0
// mmap rather than aligned_alloc: memory goes back to the system at once, and never comes from a malloc arena.
#include "base/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/checked_math.h"

namespace estream {
namespace {

// Buffers from this size on hold weights, activations of many tokens, or what storage reads. Weights are read once a
// pass, so that with pages of 4 KiB every eighth tile waits for a translation: 8 routes of an expert took 1.3 times as
// long. Storage fills huge pages in larger pieces: reads of some megabytes took half the time.
constexpr uint64_t kHugePagesFrom = uint64_t{4} << 20;

}  // namespace

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
  if (buffer.bytes_ >= kHugePagesFrom) madvise(p, buffer.bytes_, MADV_HUGEPAGE);  // refused where there are none
  return buffer;
}

void AlignedBuffer::Reset() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace estream
