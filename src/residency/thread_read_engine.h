// SPDX-License-Identifier: Apache-2.0
// The read engine for systems that refuse io_uring, and for files that only code can read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "residency/read_engine.h"

namespace estream {

// `depth` threads, each reading one request at a time. `reason` says why not io_uring, for ReadMode.
Result<std::unique_ptr<ReadEngine>> MakeThreadReadEngine(std::vector<std::shared_ptr<RecordFile>> files, uint32_t depth,
                                                         std::string reason);

}  // namespace estream
