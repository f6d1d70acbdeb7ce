// SPDX-License-Identifier: Apache-2.0
// The files' part of a ReadMode, the same for every engine.
#pragma once

#include <memory>
#include <vector>

#include "residency/read_engine.h"

namespace estream {

// Sets mode.direct and mode.direct_reason; the first file that is not direct gives the reason.
inline void DescribeFiles(const std::vector<std::shared_ptr<RecordFile>>& files, ReadMode& mode) {
  mode.direct = true;
  for (const auto& file : files) {
    if (file->direct()) continue;
    mode.direct = false;
    mode.direct_reason = file->buffered_reason();
    return;
  }
}

}  // namespace estream
