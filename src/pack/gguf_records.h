// SPDX-License-Identifier: Apache-2.0
// Records built from a GGUF file on the fly: rows read, checked, tiled.
#pragma once

#include <memory>

#include "family/family.h"
#include "family/record_source.h"
#include "format/gguf.h"

namespace estream {

// A record source over `file`, planned as `plan`. Both must outlive it. Holds one short read, one panel and one vector.
// Threads: one caller at a time.
std::unique_ptr<RecordSource> MakeGgufRecords(const Gguf& file, const ModelPlan& plan);

}  // namespace estream
