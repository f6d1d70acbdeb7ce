// SPDX-License-Identifier: Apache-2.0
// How reads from a place would be done, found out by doing some.
#pragma once

#include <cstdint>
#include <string>

#include "estream/status.h"
#include "residency/read_engine.h"

namespace estream {

// Of the file system that holds a path.
struct FileSystemFacts {
  std::string type;  // "ext4", or its number in hex
  uint64_t free_bytes = 0;
};
// Errors: NotFound or Io, naming the path.
Result<FileSystemFacts> ProbeFileSystem(const std::string& path);

struct ReadFacts {
  ReadMode mode;           // as the engine would read this file
  uint32_t alignment = 0;  // smallest size and place of a direct read that works: 512 or 4096; 0 when none does
};

// Opens `path`, a file of at least a page, as packs are opened, and reads its first page.
// Errors: NotFound, Io.
Result<ReadFacts> ProbeReads(const std::string& path);

// The same for a file made in `folder` and removed again. Errors: as ProbeFileSystem; Io when none can be made there.
Result<ReadFacts> ProbeReadsIn(const std::string& folder);

}  // namespace estream
