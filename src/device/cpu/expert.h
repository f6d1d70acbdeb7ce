// SPDX-License-Identifier: Apache-2.0
// The fused expert operator: routed rows through their experts, weighted, added to the residual.        (§3.2, eq. 1-3)
#pragma once

#include "device/bound_call.h"
#include "device/cpu/gated_ffn.h"
#include "graph/route_map.h"

namespace estream {

class ExpertOp {
 public:
  ExpertOp(const ExpertSpec& spec, const Capacity& capacity, Activations activations, ScratchPlan* plan);

  // Experts one after the other in the order of their slots, all threads on each. No dense output of an expert exists.
  //
  //   x_is_quantized  the scratch still holds what the last call of this operator left there, and x is the same
  //
  // Errors: InvalidArgument for more than kMaxSlots slots.
  Status Run(const CpuContext& context, const BoundExpertCall& call, bool x_is_quantized) const;

  // The route map keeps an offset a slot, and slots are not known at Build: scratch is taken for this many, enough for
  // every expert of 60 layers of 256 to stay resident in one arena.
  static constexpr uint32_t kMaxSlots = 16384;

 private:
  void QuantizeTokens(const CpuContext& context, const BoundExpertCall& call) const;
  QuantizedRows Token(const CpuContext& context, uint64_t token) const;
  ProductRows Gather(const CpuContext& context, const BoundExpertCall& call, std::span<const RouteRecord> routes) const;
  void RunExpert(const CpuContext& context, const BoundExpertCall& call, const std::byte* record,
                 std::span<const RouteRecord> routes, const std::byte* next_record) const;

  ExpertSpec spec_;
  ScratchArray<uint32_t> offsets_;     // route map
  ScratchArray<RouteRecord> records_;  // route map
  bool takes_floats_;                  // gate or up
  bool takes_q8_;                      // gate or up
  ScratchArray<float> gathered_;       // x of the routed rows
  QuantizedScratch gathered_q8_;       // the same as int8
  QuantizedScratch tokens_q8_;         // x of all tokens, each a row of its own; kept from call to call of a layer
  GatedFfn ffn_;
};

}  // namespace estream
