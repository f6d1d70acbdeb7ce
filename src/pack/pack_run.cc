// SPDX-License-Identifier: Apache-2.0
// A pack is a function of its source: any window of it can be computed on its own, by any thread.
#include "pack/pack_run.h"

#include <algorithm>

#include "base/macros.h"
#include "pack/record_encoder.h"
#include "pack/unit_pipeline.h"

namespace estream {
namespace {

constexpr uint64_t kCheckpointBytes = 256 << 20;

// Several whole expert records, or a part of one.
Status EncodeExperts(const ModelPlan& plan, const PackRegion& region, uint64_t first, std::span<std::byte> out,
                     RecordEncoder* encoder) {
  while (!out.empty()) {
    const auto position = static_cast<uint32_t>(first / region.unit_bytes);
    const uint64_t within = first % region.unit_bytes;
    const auto take = static_cast<size_t>(std::min<uint64_t>(out.size(), region.unit_bytes - within));
    ES_RETURN_IF_ERROR(encoder->Encode(ExpertRecord(plan, region.layer, position), within, out.first(take)));
    first += take;
    out = out.subspan(take);
  }
  return Status::Ok();
}

Status EncodeWindow(const ModelPlan& plan, const PackRegion& region, uint64_t first, std::span<std::byte> out,
                    RecordEncoder* encoder) {
  switch (region.kind) {
    case RegionKind::kEmbedding:
      return encoder->EncodeEmbedding(first, out);
    case RegionKind::kBlock:
      return encoder->Encode(plan.layers[region.layer].block, first, out);
    case RegionKind::kExperts:
      return EncodeExperts(plan, region, first, out, encoder);
    case RegionKind::kFinalNorm:
      return encoder->Encode(plan.final_record, first, out);
    case RegionKind::kHead:
      return encoder->Encode(plan.head_record, first, out);
  }
  return Status::Ok();
}

// A pipeline that reports progress from where it begins.
UnitPipeline Pipeline(const PackRun& run, uint64_t first_unit) {
  UnitPipeline pipeline{.regions = run.regions, .first_unit = first_unit, .threads = PipelineThreads(run.threads)};
  pipeline.on_progress = [&run, done = BytesBefore(run.regions, first_unit)](uint64_t bytes) mutable {
    done += bytes;
    if (run.progress) run.progress(done);
  };
  pipeline.cancel = run.cancel;
  return pipeline;
}

Status ReadWindow(const PackRun& run, const RandomAccessFile& file, const PackWindow& window,
                  std::span<std::byte> out) {
  return file.ReadAt(run.regions[window.region].offset + window.first, out);
}

}  // namespace

Status EncodeRegions(const PackRun& run, const TensorFiles& files, uint64_t first_unit, PackHeader* header,
                     PackOutput* output) {
  UnitPipeline pipeline = Pipeline(run, first_unit);
  std::vector<RecordEncoder> encoders;
  for (uint32_t t = 0; t < pipeline.threads; ++t) {
    encoders.emplace_back(files, run.plan, WindowBytes(pipeline.threads));
  }
  uint64_t unsaved = 0;
  const auto save = [&] { return output->WriteAt(header->unit_hashes_offset(), header->unit_hashes()); };
  pipeline.fill = [&](uint32_t thread, const PackWindow& window, std::span<std::byte> out) {
    return EncodeWindow(run.plan, run.regions[window.region], window.first, out, &encoders[thread]);
  };
  pipeline.on_unit = [&](uint64_t unit, const Hash128& hash) {
    header->set_unit_hash(unit, hash);
    return true;
  };
  // A hash may get to the file before the bytes it stands for: whoever continues compares them anyway.
  pipeline.on_progress = [&, report = pipeline.on_progress](uint64_t bytes) {
    report(bytes);
    unsaved += bytes;
    if (unsaved < kCheckpointBytes) return;
    unsaved = 0;
    (void)save();  // its failure costs a later run some work, no more
  };
  pipeline.hand_on = [&](const PackWindow& window, std::span<const std::byte> bytes) {
    return output->WriteAt(run.regions[window.region].offset + window.first, bytes);
  };
  const Status status = pipeline.Run();
  const Status saved = save();
  return status.ok() ? saved : status;
}

Status HashRegions(const PackRun& run, const RandomAccessFile& file, PackHeader* header) {
  UnitPipeline pipeline = Pipeline(run, 0);
  pipeline.fill = [&](uint32_t, const PackWindow& window, std::span<std::byte> out) {
    return ReadWindow(run, file, window, out);
  };
  pipeline.on_unit = [&](uint64_t unit, const Hash128& hash) {
    header->set_unit_hash(unit, hash);
    return true;
  };
  return pipeline.Run();
}

Result<uint64_t> CountGoodUnits(const PackRun& run, const RandomAccessFile& file, const PackHeader& header) {
  uint64_t good = 0;
  const uint64_t units = UnitCount(run.regions);
  while (good < units && header.unit_hash(good).known()) ++good;
  if (good == 0) return good;
  const uint64_t claimed = good;
  good = 0;
  UnitPipeline pipeline = Pipeline(run, 0);
  pipeline.fill = [&](uint32_t, const PackWindow& window, std::span<std::byte> out) {
    return ReadWindow(run, file, window, out);
  };
  pipeline.on_unit = [&](uint64_t unit, const Hash128& hash) {
    if (hash != header.unit_hash(unit)) return false;
    good = unit + 1;
    return good < claimed;
  };
  const Status status = pipeline.Run();
  if (status.code() == StatusCode::kCancelled) return status;
  return good;  // what cannot be read is done again
}

}  // namespace estream
