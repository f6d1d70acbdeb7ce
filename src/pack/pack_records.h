// SPDX-License-Identifier: Apache-2.0
// Records read from a pack, as they stand there.
#pragma once

#include <memory>

#include "family/record_source.h"
#include "pack/pack_file.h"

namespace estream {

// A record source over `pack`, which must outlive it. With `check_hashes` every byte handed out belongs to a unit whose
// hash was compared; Corrupt names the one that differs. Checking reads whole units: up to 1 MiB around an embedding
// row. Threads: one caller at a time.
std::unique_ptr<RecordSource> MakePackRecords(const PackFile& pack, bool check_hashes);

}  // namespace estream
