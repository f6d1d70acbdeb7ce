// SPDX-License-Identifier: Apache-2.0
// Page-aligned, zero-initialised memory with one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "estream/status.h"

namespace estream {

inline constexpr uint64_t kPageBytes = 4096;

// Anonymous memory from the operating system: page-aligned, zeroed, given back on destruction. Pages are populated on
// first touch, so an untouched buffer costs address space only. From 4 MiB on the system is asked for pages of 2 MiB
// where the buffer holds whole ones: it never takes more than its bytes, but is populated in larger steps.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  ~AlignedBuffer() { Reset(); }
  AlignedBuffer(AlignedBuffer&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& o) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  // Errors: OverBudget when the system has no memory for `bytes`. Zero bytes give an empty buffer.
  static Result<AlignedBuffer> Allocate(uint64_t bytes);

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }
  void Reset();

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace estream
