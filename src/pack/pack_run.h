// SPDX-License-Identifier: Apache-2.0
// The long part of packing: all regions encoded into a file, and the hashes of what stands in one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "estream/status.h"
#include "family/model_plan.h"
#include "format/file.h"
#include "pack/pack_header.h"
#include "pack/pack_layout.h"
#include "pack/pack_output.h"
#include "pack/tensor_files.h"

namespace estream {

struct PackRun {
  const ModelPlan& plan;
  const std::vector<PackRegion>& regions;
  uint32_t threads = 0;                                   // processors to use; 0: all this process may
  std::function<void(uint64_t done)> progress = nullptr;  // bytes of regions, from the first; may be empty
  const std::atomic<bool>* cancel = nullptr;
};

// Encodes everything from `first_unit` on and writes it to its place in `output`; unit hashes go into `header`, and
// with it to the file every 256 MiB and at the end, whether it comes to it or not, so that another run can continue.
//
// Errors: as RecordEncoder and PackOutput; Cancelled.
Status EncodeRegions(const PackRun& run, const TensorFiles& files, uint64_t first_unit, PackHeader* header,
                     PackOutput* output);

// Reads `file` and puts the hash of every unit into `header`. Errors: Io, Corrupt, Cancelled.
Status HashRegions(const PackRun& run, const RandomAccessFile& file, PackHeader* header);

// How many of the first units of `file` have the hash that `header` has for them. Errors: Cancelled.
Result<uint64_t> CountGoodUnits(const PackRun& run, const RandomAccessFile& file, const PackHeader& header);

}  // namespace estream
