// SPDX-License-Identifier: Apache-2.0
// From the records of a pack to a stream.
#include "engine/expert_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/macros.h"
#include "pack/check_units.h"
#include "residency/rated_file.h"

namespace estream {

Capacity CapacityOf(const ModelPlan& plan, uint32_t max_tokens) {
  return {max_tokens, std::min(max_tokens, 512u) * plan.top_k};
}

StreamedModel StreamedModelOf(const ModelPlan& plan) {
  StreamedModel model;
  model.experts = plan.experts;
  for (const uint32_t l : plan.sparse_layers) {
    const uint32_t expert_class = plan.layers[l].expert_class;
    model.layers.push_back({plan.expert_classes[expert_class].record_bytes, expert_class});
  }
  return model;
}

Result<ReadEngineOptions::Kind> ParseStorage(const std::string& name) {
  if (name == "auto") return ReadEngineOptions::Kind::kAuto;
  if (name == "io_uring") return ReadEngineOptions::Kind::kUring;
  if (name == "threads") return ReadEngineOptions::Kind::kThreads;
  return Status::InvalidArgument(
      fmt::format("unknown storage engine \"{}\" (known: auto, io_uring, threads)", name.substr(0, 40)));
}

Result<EarlyOrder> ParseEarlyOrder(const std::string& name) {
  if (name == "pack") return EarlyOrder::kPack;
  if (name == "previous") return EarlyOrder::kPrevious;
  return Status::InvalidArgument(fmt::format("unknown early order \"{}\" (known: pack, previous)", name.substr(0, 40)));
}

Result<Schedule> ScheduleOf(const ModelFile& model, const ExpertOptions& options) {
  if (!options.schedule.empty()) return ParseSchedule(options.schedule);
  return model.pack() != nullptr ? Schedule::kStream : Schedule::kResident;
}

Result<std::unique_ptr<StreamingExperts>> StreamFromPack(const ModelFile& model, const ModelPlan& plan,
                                                         const GraphSet& graphs, const ExpertOptions& options,
                                                         Schedule schedule, const StreamShape& shape,
                                                         const Capacity& capacity, ComputeClock* clock,
                                                         Device* device) {
  const PackFile* pack = model.pack();
  if (pack == nullptr) {
    return Status::InvalidArgument(
        fmt::format("{}: schedule \"{}\" reads experts from a pack, and this is a plain model file", model.info().path,
                    ScheduleName(schedule)));
  }
  StreamOptions stream;
  stream.schedule = schedule;
  stream.shape = shape;
  stream.expert_count = plan.experts;
  stream.slot_stride = plan.expert_stride;
  stream.max_routes = capacity.routes;
  stream.keep_warm = options.keep_warm;
  stream.sparse_reads = options.sparse_reads;
  ES_ASSIGN_OR_RETURN(stream.early_order, ParseEarlyOrder(options.early_order));
  stream.clock = clock;
  stream.build_graph = [&plan, device, capacity](uint32_t index) {
    const uint32_t expert_class = plan.layers[plan.sparse_layers[index]].expert_class;
    return device->Build(plan.expert_classes[expert_class], capacity);
  };
  ES_ASSIGN_OR_RETURN(stream.engine, ParseStorage(options.storage));
  if (options.check_hashes) {
    stream.check = [pack, &plan](uint32_t index, uint32_t position, std::span<const std::byte> record) {
      return CheckPackUnits(*pack, pack->experts(plan.sparse_layers[index]).offset + position * record.size(), record);
    };
  }
  std::vector<StreamedLayer> layers;
  for (const uint32_t l : plan.sparse_layers) {
    const PackFile::Experts experts = pack->experts(l);
    layers.push_back({graphs.layers[l].experts, experts.offset, experts.record_bytes});
  }
  ES_ASSIGN_OR_RETURN(std::shared_ptr<RecordFile> file, OpenRecordFile(pack->path()));
  if (options.max_read_rate > 0) file = MakeRatedFile(std::move(file), options.max_read_rate);
  return StreamingExperts::Create(std::move(file), std::move(layers), stream, device);
}

}  // namespace estream
