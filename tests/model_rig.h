// SPDX-License-Identifier: Apache-2.0
// A model on a device, put together below the public engine so that a test sees inside the pass.
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/macros.h"
#include "device/device.h"
#include "family/family.h"
#include "format/gguf.h"
#include "model/graph_set.h"
#include "model/prefill.h"
#include "model/resident_weights.h"
#include "pack/gguf_records.h"
#include "pipeline/resident_experts.h"

namespace estream::testing {

// Everything a resident pass needs. Built by MakeRig; members are used from first to last.
struct ModelRig {
  std::unique_ptr<Gguf> file;
  std::unique_ptr<ModelPlan> plan;
  std::unique_ptr<Device> device;
  std::unique_ptr<RecordSource> source;
  GraphSet graphs;
  BlockWeights blocks;
  ComputeClock clock;
  std::unique_ptr<ExpertStream> experts;
  std::unique_ptr<Prefill> prefill;
};

// `activations` are exact ones unless asked for otherwise. `change` may alter the plan before anything is built from
// it: a mistake made on purpose.
inline Result<std::unique_ptr<ModelRig>> MakeRig(const std::string& path, const std::string& device, uint32_t threads,
                                                 uint32_t max_tokens, uint32_t max_routes = 256,
                                                 const std::function<void(ModelPlan&)>& change = nullptr,
                                                 const std::string& activations = "f32") {
  auto rig = std::make_unique<ModelRig>();
  ES_ASSIGN_OR_RETURN(Gguf file, Gguf::Open(path));
  rig->file = std::make_unique<Gguf>(std::move(file));
  ES_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(*rig->file));
  if (change) change(plan);
  rig->plan = std::make_unique<ModelPlan>(std::move(plan));
  ES_ASSIGN_OR_RETURN(rig->device, MakeDevice({device, threads, nullptr, activations}));
  rig->source = MakeGgufRecords(*rig->file, *rig->plan);
  ES_ASSIGN_OR_RETURN(rig->graphs, GraphSet::Build(*rig->plan, {max_tokens, max_routes}, rig->device.get()));
  ES_ASSIGN_OR_RETURN(rig->blocks, LoadBlocks(*rig->plan, rig->source.get(), rig->device.get()));
  ES_ASSIGN_OR_RETURN(const std::vector<BufferRef> arenas,
                      LoadExperts(*rig->plan, rig->source.get(), rig->device.get()));
  const uint32_t experts = rig->plan->experts;
  ES_ASSIGN_OR_RETURN(const DeviceBuffer placement, rig->device->Allocate(experts * sizeof(int32_t), "placement"));
  std::iota(placement.as<int32_t>(), placement.as<int32_t>() + experts, 0);
  std::vector<ResidentLayer> layers;
  for (size_t i = 0; i < arenas.size(); ++i) {
    layers.push_back({rig->graphs.layers[rig->plan->sparse_layers[i]].experts, arenas[i]});
  }
  rig->experts = MakeResidentExperts(rig->device.get(), std::move(layers),
                                     {experts, rig->plan->expert_stride, max_routes, placement.ref(), &rig->clock});
  ES_ASSIGN_OR_RETURN(rig->prefill, Prefill::Create({rig->plan.get(), &rig->graphs, &rig->blocks, rig->experts.get(),
                                                     rig->source.get(), rig->device.get(), &rig->clock},
                                                    max_tokens));
  return rig;
}

}  // namespace estream::testing
