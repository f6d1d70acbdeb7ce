// SPDX-License-Identifier: Apache-2.0
// How far one read has come, and what the outcome of an attempt means for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "estream/status.h"
#include "residency/record_file.h"

namespace estream {

// Loops until complete, the same way in every engine:
//   for (ReadProgress p(...); p.Take(<read p.next() at p.position()>) == kAgain;) {}
// Interrupted and short attempts go on where they stopped; the end of the file is an error; a file that refuses direct
// reads goes on buffered, in chunks whose pages are dropped at once, so that a read charges at most 1 MiB to the page
// cache.
class ReadProgress {
 public:
  enum class Step : uint8_t { kAgain, kDone, kFailed };

  // Pre: offset and out.size() are multiples of the page size.
  ReadProgress(RecordFile& file, uint64_t offset, std::span<std::byte> out)
      : file_(&file), offset_(offset), out_(out) {}

  uint64_t position() const { return offset_ + done_; }
  std::span<std::byte> next() const;

  // `result` of reading next(): bytes, 0 or -errno.
  Step Take(int64_t result);
  // Why it failed: Corrupt when the file ends early, Io with the system's reason else.
  const Status& status() const { return status_; }

 private:
  Step Advance(uint64_t bytes);
  Step Retry(int error);
  Step Fail(Status status);
  Step FailAtEnd(uint64_t end);

  RecordFile* file_;
  uint64_t offset_;
  std::span<std::byte> out_;
  uint64_t done_ = 0;
  uint32_t idle_ = 0;  // attempts in a row that read nothing
  Status status_;
};

}  // namespace estream
