// SPDX-License-Identifier: Apache-2.0
// Buffers are sized from the plan before anything is read, so a model that does not fit fails at once.
#include "model/resident_weights.h"

#include "base/macros.h"

namespace estream {

Result<BlockWeights> LoadBlocks(const ModelPlan& plan, RecordSource* source, Device* device) {
  uint64_t bytes = plan.final_record.bytes + plan.head_record.bytes;
  for (const LayerPlan& layer : plan.layers) bytes += layer.block.bytes;
  ES_ASSIGN_OR_RETURN(const DeviceBuffer buffer, device->Allocate(bytes, "non-expert weights"));

  uint64_t offset = 0;
  const auto load = [&](const RecordPlan& record, BufferRef* at) {
    *at = buffer.ref(offset);
    const Status status = source->ReadRecord(record, {buffer.host + offset, record.bytes});
    offset += record.bytes;
    return status;
  };
  BlockWeights weights;
  weights.layers.resize(plan.layers.size());
  for (size_t l = 0; l < plan.layers.size(); ++l) ES_RETURN_IF_ERROR(load(plan.layers[l].block, &weights.layers[l]));
  ES_RETURN_IF_ERROR(load(plan.final_record, &weights.final_norm));
  ES_RETURN_IF_ERROR(load(plan.head_record, &weights.head));
  return weights;
}

Result<std::vector<BufferRef>> LoadExperts(const ModelPlan& plan, RecordSource* source, Device* device) {
  const uint64_t layer_bytes = plan.expert_stride * plan.experts;
  ES_ASSIGN_OR_RETURN(const DeviceBuffer buffer, device->Allocate(layer_bytes * plan.sparse_layers.size(), "experts"));
  std::vector<BufferRef> layers;
  for (const uint32_t l : plan.sparse_layers) {
    layers.push_back(buffer.ref(layer_bytes * layers.size()));
    for (uint32_t e = 0; e < plan.experts; ++e) {
      const RecordPlan record = ExpertRecord(plan, l, e);
      std::byte* slot = buffer.host + layers.back().offset + e * plan.expert_stride;
      ES_RETURN_IF_ERROR(source->ReadRecord(record, {slot, record.bytes}));
    }
  }
  return layers;
}

}  // namespace estream
