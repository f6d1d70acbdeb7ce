// SPDX-License-Identifier: Apache-2.0
// How fast a file is read, by size of a read and number of reads in flight.
#pragma once

#include <string>

#include "bench/measure.h"
#include "bench/report.h"
#include "estream/status.h"

namespace estream {

struct StorageSpeed {
  std::string mode;  // "direct", or why not
  ReportTable table;
};

// GB/s (10^9) of reading `path` front to back, wrapping around, with 1, 2, 4 and 8 threads that each have one preadv
// under way; past the page cache where the file system allows.
//
// Errors: what the system says about the file; InvalidArgument when it is smaller than 64 MiB.
Result<StorageSpeed> MeasureStorage(const std::string& path, const Effort& effort);

// Writes a file of `bytes` incompressible bytes in folder `dir`, synced to storage, and returns its path. The caller
// removes it.
Result<std::string> WriteStorageProbe(const std::string& dir, uint64_t bytes);

}  // namespace estream
