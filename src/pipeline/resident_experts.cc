// SPDX-License-Identifier: Apache-2.0
// Slots are experts, so slot order is pack order and one call may span all experts of a layer.
#include "pipeline/resident_experts.h"

#include <algorithm>
#include <utility>

#include "base/macros.h"

namespace estream {
namespace {

class ResidentExperts : public ExpertStream {
 public:
  ResidentExperts(Device* device, std::vector<ResidentLayer> layers, const ResidentOptions& options)
      : device_(device), layers_(std::move(layers)), options_(options) {}

  Status StartRequest(const RouteCounts&) override { return Status::Ok(); }
  void Begin(uint32_t) override {}
  void EndRequest() override {}

  Status Run(const ExpertWork& work) override {
    const ResidentLayer& layer = layers_[work.layer];
    ExpertInvocation call;
    call.graph = layer.graph;
    call.tokens = work.tokens;
    call.expert_count = options_.expert_count;
    call.slot_count = options_.expert_count;
    call.slot_stride = options_.slot_stride;
    call.x = work.x;
    call.y = work.y;
    call.placement = options_.placement;
    call.arena = layer.arena;
    const ComputeSpan span(options_.clock, "experts", work.layer);
    for (uint32_t first = 0; first < work.route_count; first += call.route_count) {
      call.route_count = std::min(options_.max_routes, work.route_count - first);
      call.routes = work.routes + uint64_t{first} * sizeof(Route);
      call.same_x = first > 0 ? 1 : 0;
      ES_ASSIGN_OR_RETURN([[maybe_unused]] const Ticket ticket, device_->Submit(call));
    }
    return Status::Ok();
  }

 private:
  Device* const device_;
  const std::vector<ResidentLayer> layers_;
  const ResidentOptions options_;
};

}  // namespace

std::unique_ptr<ExpertStream> MakeResidentExperts(Device* device, std::vector<ResidentLayer> layers,
                                                  const ResidentOptions& options) {
  return std::make_unique<ResidentExperts>(device, std::move(layers), options);
}

}  // namespace estream
