// SPDX-License-Identifier: Apache-2.0
// From a file that exists as a function to one that exists as bytes: made by all threads, written in order, in bounded
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/thread_pool.h"
#include "estream/status.h"
#include "format/file.h"

namespace estream {

// Takes the next bytes of the file.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

// Reads `file` from front to back and hands it to `sink` in pieces of kPieceBytes (the last one is shorter),
// page-aligned in memory. While one piece is written the next is read.
//
//   progress  called with the bytes written so far, after each piece
//
// Threads: `sink` and `progress` are called on one thread at a time, not always the same; file.ReadAt on all.
// Errors:  those of ReadAt and `sink`; OverBudget for the two pieces of memory.
Status StreamOut(const RandomAccessFile& file, ThreadPool* pool, const ByteSink& sink,
                 const std::function<void(uint64_t)>& progress);

inline constexpr uint64_t kPieceBytes = uint64_t{32} << 20;

}  // namespace estream
