// SPDX-License-Identifier: Apache-2.0
// The fused expert operator: routed rows through their experts, weighted, added to the residual.        (§3.2, eq. 1-3)
#pragma once

#include "device/bound_call.h"
#include "device/cpu/gated_ffn.h"
#include "graph/route_map.h"

namespace estream {

class ExpertOp {
 public:
  ExpertOp(const ExpertSpec& spec, const Capacity& capacity, ScratchPlan* plan);

  // Experts one after the other in the order of their slots, all threads on each. No dense output of an expert exists.
  //
  // Errors: InvalidArgument for more than kMaxSlots slots.
  Status Run(const CpuContext& context, const BoundExpertCall& call) const;

  // The route map keeps an offset a slot, and slots are not known at Build: scratch is taken for this many, enough for
  // every expert of 60 layers of 256 to stay resident in one arena.
  static constexpr uint32_t kMaxSlots = 16384;

 private:
  void RunExpert(const CpuContext& context, const BoundExpertCall& call, const std::byte* record,
                 std::span<const RouteRecord> routes) const;

  ExpertSpec spec_;
  ScratchArray<uint32_t> offsets_;     // route map
  ScratchArray<RouteRecord> records_;  // route map
  ScratchArray<float> gathered_;       // x of the routed rows
  GatedFfn ffn_;
};

}  // namespace estream
