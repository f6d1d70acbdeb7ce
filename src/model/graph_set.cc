// SPDX-License-Identifier: Apache-2.0
// Specs are compared whole; a model has a handful of distinct ones, so a linear search is the simplest index.
#include "model/graph_set.h"

#include "base/macros.h"

namespace estream {
namespace {

// Builds each distinct spec once.
template <class Spec>
class Builder {
 public:
  Builder(const Capacity& capacity, Device* device) : capacity_(capacity), device_(device) {}

  Result<uint32_t> Get(const Spec& spec) {
    for (const auto& [known, graph] : known_) {
      if (known == spec) return graph;
    }
    ES_ASSIGN_OR_RETURN(const uint32_t graph, device_->Build(spec, capacity_));
    known_.emplace_back(spec, graph);
    return graph;
  }

  uint32_t built() const { return static_cast<uint32_t>(known_.size()); }

 private:
  const Capacity capacity_;
  Device* const device_;
  std::vector<std::pair<Spec, uint32_t>> known_;
};

}  // namespace

Result<GraphSet> GraphSet::Build(const ModelPlan& plan, const Capacity& capacity, Device* device) {
  Builder<BlockSpec> blocks(capacity, device);
  Builder<ExpertSpec> experts(capacity, device);
  GraphSet set;
  ES_ASSIGN_OR_RETURN(set.embedding, blocks.Get(plan.embedding));
  for (const LayerPlan& layer : plan.layers) {
    Layer graphs;
    ES_ASSIGN_OR_RETURN(graphs.mixer, blocks.Get(layer.mixer));
    if (layer.ffn.ffn > 0) {
      ES_ASSIGN_OR_RETURN(graphs.ffn, blocks.Get(layer.ffn));
    }
    if (layer.sparse) {
      ES_ASSIGN_OR_RETURN(graphs.router, blocks.Get(layer.router));
      ES_ASSIGN_OR_RETURN(graphs.experts, experts.Get(plan.expert_classes[layer.expert_class]));
    } else {
      ES_ASSIGN_OR_RETURN(graphs.ffn_norm, blocks.Get(layer.ffn_norm));
    }
    set.layers.push_back(graphs);
  }
  ES_ASSIGN_OR_RETURN(set.final_norm, blocks.Get(plan.final_norm));
  ES_ASSIGN_OR_RETURN(set.head, blocks.Get(plan.head));
  set.built = blocks.built() + experts.built();
  return set;
}

}  // namespace estream
