// SPDX-License-Identifier: Apache-2.0
// Graphs are operators with their scratch laid out; a call is bound, checked and run on the spot.
#include "device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "base/thread_pool.h"
#include "device/bound_call.h"
#include "device/buffer_table.h"
#include "device/cpu/attention.h"
#include "device/cpu/expert.h"
#include "device/cpu/ffn.h"
#include "device/cpu/latent_attention.h"
#include "device/cpu/linear.h"
#include "device/cpu/router.h"
#include "device/cpu/row_ops.h"
#include "device/cpu/short_conv.h"
#include "device/graph_table.h"
#include "device/spec_check.h"
#include "kernels/target.h"

namespace estream {
namespace {

constexpr uint32_t kMaxThreads = 256;

using BlockOp =
    std::variant<EmbeddingOp, NormOp, LinearOp, AttentionOp, RouterOp, FfnOp, ShortConvOp, LatentAttentionOp>;

BlockOp MakeOp(const EmbeddingSpec& s, const Capacity& c, Activations, ScratchPlan* plan) {
  return EmbeddingOp(s, c, plan);
}
BlockOp MakeOp(const NormSpec& s, const Capacity& c, Activations, ScratchPlan* plan) { return NormOp(s, c, plan); }
BlockOp MakeOp(const LinearSpec& s, const Capacity& c, Activations a, ScratchPlan* plan) {
  return LinearOp(s, c, a, plan);
}
BlockOp MakeOp(const AttentionSpec& s, const Capacity& c, Activations a, ScratchPlan* plan) {
  return AttentionOp(s, c, a, plan);
}
BlockOp MakeOp(const RouterSpec& s, const Capacity& c, Activations, ScratchPlan* plan) { return RouterOp(s, c, plan); }
BlockOp MakeOp(const FfnSpec& s, const Capacity& c, Activations a, ScratchPlan* plan) { return FfnOp(s, c, a, plan); }
BlockOp MakeOp(const ShortConvSpec& s, const Capacity& c, Activations a, ScratchPlan* plan) {
  return ShortConvOp(s, c, a, plan);
}
BlockOp MakeOp(const LatentAttentionSpec& s, const Capacity& c, Activations a, ScratchPlan* plan) {
  return LatentAttentionOp(s, c, a, plan);
}

class CpuDevice : public Device {
 public:
  CpuDevice(const DeviceOptions& options, Activations activations, uint32_t threads)
      : ledger_(options.ledger),
        trace_(options.trace),
        activations_(activations),
        buffers_(options.ledger),
        pool_(threads) {
    traits_.name = "cpu";
    traits_.activations = activations == Activations::kQ8 ? "q8" : "f32";
    traits_.description = fmt::format("CPU, {}, {} thread{}", KernelTargetName(), threads, threads == 1 ? "" : "s");
    traits_.threads = threads;
  }

  const DeviceTraits& traits() const override { return traits_; }
  Result<DeviceBuffer> Allocate(uint64_t bytes, std::string_view name) override {
    return buffers_.Allocate(bytes, name);
  }
  void Free(const DeviceBuffer& buffer) override { buffers_.Free(buffer); }

  Result<uint32_t> Build(const ExpertSpec& spec, const Capacity& capacity) override {
    ES_RETURN_IF_ERROR(CheckSpec(spec, capacity));
    ScratchPlan plan(pool_.threads());
    const ExpertOp op(spec, capacity, activations_, &plan);
    return AddGraph(ExpertGraph{spec, capacity, op}, plan);
  }

  Result<uint32_t> Build(const BlockSpec& spec, const Capacity& capacity) override {
    ES_RETURN_IF_ERROR(CheckSpec(spec, capacity));
    ScratchPlan plan(pool_.threads());
    BlockOp op = std::visit([&](const auto& s) { return MakeOp(s, capacity, activations_, &plan); }, spec);
    return AddGraph(BlockGraph{spec, capacity, std::move(op)}, plan);
  }

  void Drop(uint32_t graph) override {
    graphs_.Drop(graph);
    held_input_.reset();
  }

  Result<Ticket> Submit(const ExpertInvocation& call) override {
    const auto* graph = std::get_if<ExpertGraph>(graphs_.Find(call.graph));
    if (graph == nullptr) return Status::InvalidArgument(fmt::format("graph {} is not an expert graph", call.graph));
    ES_ASSIGN_OR_RETURN(const BoundExpertCall bound, Bind(graph->spec, graph->capacity, buffers_, call));
    if (bound.routes.empty()) return ++last_ticket_;
    const HeldInput input{call.graph, bound.tokens, bound.x};
    const bool held = bound.same_x && held_input_ == input;
    held_input_.reset();
    ES_RETURN_IF_ERROR(graph->op.Run(context(), bound, held));
    held_input_ = input;
    return ++last_ticket_;
  }

  Result<Ticket> Submit(const BlockInvocation& call) override {
    const auto* graph = std::get_if<BlockGraph>(graphs_.Find(call.graph));
    if (graph == nullptr) return Status::InvalidArgument(fmt::format("graph {} is not a block graph", call.graph));
    ES_ASSIGN_OR_RETURN(const BoundBlockCall bound, Bind(graph->spec, graph->capacity, buffers_, call));
    if (bound.weights == nullptr) return ++last_ticket_;  // no rows
    held_input_.reset();
    ES_RETURN_IF_ERROR(std::visit([&](const auto& op) { return op.Run(context(), bound); }, graph->op));
    return ++last_ticket_;
  }

  // Calls ran in Submit, which returned their errors.
  Status Wait(Ticket ticket) override {
    if (ticket <= last_ticket_) return Status::Ok();
    return Status::InvalidArgument(
        fmt::format("ticket {} was never given out, the last one is {}", ticket, last_ticket_));
  }

 private:
  struct ExpertGraph {
    ExpertSpec spec;
    Capacity capacity;
    ExpertOp op;
  };
  struct BlockGraph {
    BlockSpec spec;
    Capacity capacity;
    BlockOp op;
  };
  using Graph = std::variant<std::monostate, ExpertGraph, BlockGraph>;  // nothing: dropped

  // Whose int8 rows the scratch holds. A layer's experts come group by group with the same x, which is quantised in the
  // first call. It cannot go stale unnoticed: any other call, or a larger arena, forgets it, since both overwrite it;
  // and that nobody else wrote x meanwhile is what the caller says with `same_x`, which the device could not see.
  struct HeldInput {
    uint32_t graph;
    uint32_t tokens;
    const float* x;
    bool operator==(const HeldInput&) const = default;
  };

  CpuContext context() { return {&pool_, scratch_.data(), trace_}; }

  // The arena grows to the largest graph. Nothing in it outlives a build, so it is replaced, not moved.
  Result<uint32_t> AddGraph(Graph graph, const ScratchPlan& plan) {
    if (plan.bytes() > scratch_.bytes()) {
      auto grown = AlignedBuffer::Allocate(plan.bytes());
      if (!grown.ok()) return grown.status().WithPrefix("scratch of the CPU device: ");
      scratch_ = std::move(grown).value();
      held_input_.reset();
      scratch_hold_ = {};
      scratch_hold_ = MemoryLedger::Hold(ledger_, "device scratch", scratch_.bytes());
    }
    return graphs_.Add(std::move(graph));
  }

  MemoryLedger* const ledger_;
  TraceRecorder* const trace_;
  const Activations activations_;
  DeviceTraits traits_;
  BufferTable buffers_;
  ThreadPool pool_;
  AlignedBuffer scratch_;
  MemoryLedger::Hold scratch_hold_;
  GraphTable<Graph> graphs_;
  std::optional<HeldInput> held_input_;
  Ticket last_ticket_ = 0;
};

}  // namespace

Result<std::unique_ptr<Device>> MakeCpuDevice(const DeviceOptions& options, Activations activations) {
  if (options.threads > kMaxThreads) {
    return Status::InvalidArgument(fmt::format("{} threads, at most {} are supported", options.threads, kMaxThreads));
  }
  const uint32_t threads = options.threads != 0 ? options.threads : std::min(UsableProcessors(), kMaxThreads);
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(options, activations, threads));
}

}  // namespace estream
