// SPDX-License-Identifier: Apache-2.0
// The read engine over io_uring.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "residency/read_engine.h"

namespace estream {

// Errors: Unsupported, with the reason, when the kernel refuses a ring or a file has no descriptor.
Result<std::unique_ptr<ReadEngine>> MakeUringReadEngine(std::vector<std::shared_ptr<RecordFile>> files,
                                                        std::vector<std::span<std::byte>> regions,
                                                        const ReadEngineOptions& options);

}  // namespace estream
