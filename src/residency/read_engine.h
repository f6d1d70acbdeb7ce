// SPDX-License-Identifier: Apache-2.0
// Reads in flight: one interface over io_uring and over threads.                                            (§3.3)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "estream/status.h"
#include "residency/record_file.h"

namespace estream {

// Who is told that a read has ended.
class ReadSink {
 public:
  // Threads: called by the engine, never from inside Submit; with io_uring by its one thread, with threads by whichever
  //          did the read, so several calls may run at once. It may submit more reads.
  virtual void OnRead(uint64_t tag, const Status& status) = 0;

 protected:
  ~ReadSink() = default;
};

// Offset, bytes and destination are multiples of the page size.
struct ReadRequest {
  uint32_t file = 0;  // index of the engine's files
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* dest = nullptr;
  uint64_t tag = 0;  // handed back to the sink
  ReadSink* sink = nullptr;
};

// How reads are really done, for reports.
struct ReadMode {
  std::string engine = {};             // "io_uring" or "threads"
  std::string engine_reason = {};      // why not io_uring; empty when it is, or when threads were asked for
  bool registered_files = false;       // io_uring knows the descriptors
  uint32_t registered_regions = 0;     // io_uring has pinned so many of them
  std::string registered_reason = {};  // why not all
  bool direct = false;                 // every file bypasses the page cache
  std::string direct_reason = {};      // why not

  // One line: "io_uring, registered buffers, direct".
  std::string ToString() const;
};

// Reads until complete (read_progress.h); every accepted request ends in exactly one call of its sink.
class ReadEngine {
 public:
  // Closes.
  virtual ~ReadEngine() = default;

  // Takes a read in hand. Its destination belongs to the engine until the sink is called.
  //
  // Threads: any; does not wait for the device.
  // Errors:  InvalidArgument for an unknown file, a misaligned or empty read, or more than depth() reads in flight;
  //          Cancelled after Close. The sink is not called then.
  virtual Status Submit(const ReadRequest& request) = 0;

  // Accepts no more, lets reads that have not begun fail with Cancelled, and returns when every sink has returned: the
  // memory may be unmapped then. Not from a sink.
  virtual void Close() = 0;

  virtual uint32_t depth() const = 0;
  virtual ReadMode mode() const = 0;
};

struct ReadEngineOptions {
  enum class Kind : uint8_t { kAuto, kUring, kThreads };

  Kind kind = Kind::kAuto;   // kAuto: io_uring, or threads where it is refused
  uint32_t depth = 2;        // Q: most reads in flight, 1..kMaxDepth
  bool register_all = true;  // let io_uring pin files and regions

  static constexpr uint32_t kMaxDepth = 256;
};

// An engine over `files`. `regions` are the memory that reads go to (the banks of the arenas): a read inside one of
// them may use pinned pages; each is pinned when its first read comes, so that opening does not touch the whole arena.
//
// Errors: InvalidArgument for a depth out of range; Unsupported when Kind::kUring is refused.
Result<std::unique_ptr<ReadEngine>> MakeReadEngine(std::vector<std::shared_ptr<RecordFile>> files,
                                                   std::vector<std::span<std::byte>> regions,
                                                   const ReadEngineOptions& options);

// For engines: the errors of Submit that do not depend on the engine's state.
Status CheckReadRequest(const ReadRequest& request, size_t file_count);

}  // namespace estream
