// SPDX-License-Identifier: Apache-2.0
// The one seam to files: reading at an offset, and writing so that nothing half-written is taken for whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "estream/status.h"

namespace estream {

// A file of known size that is read at offsets; what GGUF reading sees of the operating system, so that tests can put
// faults in between.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Fills all of `out` from `offset`; loops over short reads and EINTR.
  //
  // Threads: any, at once.
  // Errors:  Io with the file's name and the system's reason; Corrupt when the file ends before out.size() bytes.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;

  // These bytes will be read soon: whoever can begins to fetch them and returns at once. A hint, so it has no errors.
  virtual void WillRead(uint64_t offset, uint64_t bytes) const {
    (void)offset;
    (void)bytes;
  }

  // The size when opened, in bytes.
  virtual uint64_t size() const = 0;
  // The path as the user gave it, for messages.
  virtual const std::string& name() const = 0;
};

// Opens a regular file for buffered reads.
//
// Errors: NotFound when there is none, Io when it is a directory, a device or not readable; each names the path.
Result<std::unique_ptr<RandomAccessFile>> OpenFile(const std::string& path);

// The whole of a regular file or pipe ("-" is standard input) as text.
//
// Errors: as OpenFile; InvalidArgument when it is longer than `max_bytes`.
Result<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes);

// Writes `bytes` to `path`: a temporary name in the same folder, fsync, rename. On an error nothing stands at `path`
// that was not there before, and the temporary file is gone.
Status WriteFileAtomically(const std::string& path, std::span<const std::byte> bytes);

}  // namespace estream
