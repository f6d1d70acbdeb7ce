// SPDX-License-Identifier: Apache-2.0
// Each call runs at once, start to end, in one function per kind of block.
#include "device/reference/reference_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <variant>
#include <vector>

#include "base/macros.h"
#include "device/buffer_table.h"
#include "device/graph_table.h"
#include "device/reference/reference_math.h"
#include "device/reference/reference_mixers.h"
#include "format/tile.h"
#include "graph/route_map.h"

namespace estream {
namespace {

using reference::Matrix;

// The bytes of a record up to the end of a part.
uint64_t WeightBytes(const MatrixSpec& m) {
  return m.rows == 0 ? 0 : m.offset + TiledBytes(m.format, m.rows, m.cols);  // 0 rows: the spec does not use it
}
uint64_t WeightBytes(const VectorSpec& v) { return v.offset + uint64_t{v.count} * sizeof(float); }

class ReferenceDevice : public Device {
 public:
  explicit ReferenceDevice(const DeviceOptions& options) : buffers_(options.ledger) {
    traits_.name = "reference";
    traits_.activations = "f32";
    traits_.description = "reference (scalar, double sums, 1 thread)";
  }

  const DeviceTraits& traits() const override { return traits_; }
  Result<DeviceBuffer> Allocate(uint64_t bytes, std::string_view name) override {
    return buffers_.Allocate(bytes, name);
  }
  void Free(const DeviceBuffer& buffer) override { buffers_.Free(buffer); }

  Result<uint32_t> Build(const ExpertSpec& spec, const Capacity& capacity) override {
    return graphs_.Add({spec, capacity});
  }
  Result<uint32_t> Build(const BlockSpec& spec, const Capacity& capacity) override {
    return graphs_.Add({spec, capacity});
  }
  void Drop(uint32_t graph) override { graphs_.Drop(graph); }

  Result<Ticket> Submit(const ExpertInvocation& call) override {
    const Graph* graph = graphs_.Find(call.graph);
    const auto* spec = graph != nullptr ? std::get_if<ExpertSpec>(&graph->spec) : nullptr;
    if (spec == nullptr) return Status::InvalidArgument(fmt::format("graph {} is not an expert graph", call.graph));
    if (call.route_count > graph->capacity.routes) {
      return Status::InvalidArgument(
          fmt::format("{} routes in one call, the graph was built for {}", call.route_count, graph->capacity.routes));
    }
    ES_RETURN_IF_ERROR(RunExperts(*spec, call));
    return ++ticket_;
  }

  Result<Ticket> Submit(const BlockInvocation& call) override {
    const Graph* graph = graphs_.Find(call.graph);
    const auto* spec = graph != nullptr ? std::get_if<BlockSpec>(&graph->spec) : nullptr;
    if (spec == nullptr) return Status::InvalidArgument(fmt::format("graph {} is not a block graph", call.graph));
    if (std::max(call.tokens, call.rows) > graph->capacity.tokens) {
      return Status::InvalidArgument(fmt::format("{} rows in one call, the graph was built for {}",
                                                 std::max(call.tokens, call.rows), graph->capacity.tokens));
    }
    ES_RETURN_IF_ERROR(std::visit([&](const auto& s) { return Run(s, call); }, *spec));
    return ++ticket_;
  }

  Status Wait(Ticket) override { return Status::Ok(); }

 private:
  struct Graph {
    std::variant<std::monostate, ExpertSpec, BlockSpec> spec;  // nothing: dropped
    Capacity capacity;
  };

  template <class T>
  Result<T*> Array(const BufferRef& ref, uint64_t count) const {
    ES_ASSIGN_OR_RETURN(std::byte * p, buffers_.Resolve(ref, count * sizeof(T)));
    return reinterpret_cast<T*>(p);
  }

  // The record a call binds, checked to hold all of `parts`.
  template <class... Parts>
  Result<std::byte*> Record(const BufferRef& weights, const Parts&... parts) const {
    return buffers_.Resolve(weights, std::max({WeightBytes(parts)...}));
  }

  // The positions asked for: row_ids, or 0..rows-1.
  Result<std::vector<uint32_t>> RowIds(const BlockInvocation& call) const {
    std::vector<uint32_t> ids(call.rows);
    for (uint32_t i = 0; i < call.rows; ++i) ids[i] = i;
    if (!call.row_ids.none()) {
      ES_ASSIGN_OR_RETURN(const uint32_t* given, Array<uint32_t>(call.row_ids, call.rows));
      ids.assign(given, given + call.rows);
    }
    for (uint32_t id : ids) {
      if (id >= call.tokens) return Status::InvalidArgument(fmt::format("row {} of {} tokens", id, call.tokens));
    }
    return ids;
  }

  Status Run(const EmbeddingSpec& spec, const BlockInvocation& call) {
    const uint64_t row_bytes = RowBytes(spec.format, spec.hidden);
    ES_ASSIGN_OR_RETURN(const std::byte* rows, buffers_.Resolve(call.weights, row_bytes * call.tokens));
    ES_ASSIGN_OR_RETURN(float* out, Array<float>(call.out, uint64_t{call.tokens} * spec.hidden));
    for (uint32_t t = 0; t < call.tokens; ++t) {
      DequantizeRow(spec.format, rows + t * row_bytes, out + uint64_t{t} * spec.hidden, spec.hidden);
    }
    return Status::Ok();
  }

  Status Run(const NormSpec& spec, const BlockInvocation& call) {
    ES_ASSIGN_OR_RETURN(const std::byte* record, Record(call.weights, spec.norm));
    ES_ASSIGN_OR_RETURN(const float* in, Array<float>(call.in, uint64_t{call.tokens} * spec.hidden));
    ES_ASSIGN_OR_RETURN(float* out, Array<float>(call.out, uint64_t{call.rows} * spec.hidden));
    ES_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, RowIds(call));
    const std::vector<double> norm = reference::DecodeVector(spec.norm, record);
    for (uint32_t i = 0; i < call.rows; ++i) {
      Matrix x = reference::FromFloats(in + uint64_t{ids[i]} * spec.hidden, 1, spec.hidden);
      reference::RmsNorm(x, norm, spec.epsilon);
      std::copy(x.values.begin(), x.values.end(), out + uint64_t{i} * spec.hidden);
    }
    return Status::Ok();
  }

  Status Run(const LinearSpec& spec, const BlockInvocation& call) {
    if (call.first_row % kTileRows != 0 || uint64_t{call.first_row} + call.row_count > spec.matrix.rows) {
      return Status::InvalidArgument(fmt::format("rows {}..{} of a matrix of {} rows", call.first_row,
                                                 uint64_t{call.first_row} + call.row_count, spec.matrix.rows));
    }
    MatrixSpec part = spec.matrix;
    part.offset += call.first_row / kTileRows * MakePanelLayout(part.format, part.cols).bytes;
    part.rows = call.row_count;
    ES_ASSIGN_OR_RETURN(const std::byte* record, Record(call.weights, part));
    ES_ASSIGN_OR_RETURN(const float* in, Array<float>(call.in, uint64_t{call.rows} * part.cols));
    ES_ASSIGN_OR_RETURN(float* out, Array<float>(call.out, uint64_t{call.rows} * call.out_stride));
    const Matrix y =
        reference::Product(reference::FromFloats(in, call.rows, part.cols), reference::DecodeMatrix(part, record));
    for (uint32_t r = 0; r < call.rows; ++r)
      std::copy(y.row(r), y.row(r) + part.rows, out + uint64_t{r} * call.out_stride);
    return Status::Ok();
  }

  Status Run(const AttentionSpec& spec, const BlockInvocation& call) {
    ES_ASSIGN_OR_RETURN(const std::byte* record,
                        Record(call.weights, spec.norm, spec.q, spec.k, spec.v, spec.output, spec.q_norm, spec.k_norm));
    return RunMixer(spec, record, call);
  }

  Status Run(const LatentAttentionSpec& spec, const BlockInvocation& call) {
    ES_ASSIGN_OR_RETURN(const std::byte* record, Record(call.weights, spec.norm, spec.latent_norm, spec.q, spec.kv_a,
                                                        spec.kv_b, spec.k_b, spec.v_b, spec.output));
    return RunMixer(spec, record, call);
  }

  Status Run(const ShortConvSpec& spec, const BlockInvocation& call) {
    ES_ASSIGN_OR_RETURN(const std::byte* record,
                        Record(call.weights, spec.norm, spec.conv, spec.in_proj, spec.out_proj));
    return RunMixer(spec, record, call);
  }

  // out = in + mixer(in), for the rows asked for.
  template <class Spec>
  Status RunMixer(const Spec& spec, const std::byte* record, const BlockInvocation& call) {
    ES_ASSIGN_OR_RETURN(const float* in, Array<float>(call.in, uint64_t{call.tokens} * spec.hidden));
    ES_ASSIGN_OR_RETURN(float* out, Array<float>(call.out, uint64_t{call.rows} * spec.hidden));
    ES_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, RowIds(call));
    const Matrix x = reference::FromFloats(in, call.tokens, spec.hidden);
    const Matrix y = reference::Mix(spec, record, x, ids);
    for (uint32_t i = 0; i < call.rows; ++i) {
      for (uint32_t c = 0; c < spec.hidden; ++c) {
        out[uint64_t{i} * spec.hidden + c] = static_cast<float>(x.row(ids[i])[c] + y.row(i)[c]);
      }
    }
    return Status::Ok();
  }

  Status Run(const FfnSpec& spec, const BlockInvocation& call) {
    ES_ASSIGN_OR_RETURN(const std::byte* record, Record(call.weights, spec.gate, spec.up, spec.down));
    ES_ASSIGN_OR_RETURN(const float* in, Array<float>(call.in, uint64_t{call.rows} * spec.hidden));
    ES_ASSIGN_OR_RETURN(float* out, Array<float>(call.out, uint64_t{call.rows} * spec.hidden));
    const Matrix y =
        reference::GatedFfn(reference::FromFloats(in, call.rows, spec.hidden), spec.gate, spec.up, spec.down, record);
    for (size_t i = 0; i < y.values.size(); ++i) out[i] = static_cast<float>(out[i] + y.values[i]);
    return Status::Ok();
  }

  Status Run(const RouterSpec& spec, const BlockInvocation& call) {
    ES_ASSIGN_OR_RETURN(const std::byte* record, Record(call.weights, spec.norm, spec.router, spec.bias));
    ES_ASSIGN_OR_RETURN(const float* in, Array<float>(call.in, uint64_t{call.rows} * spec.hidden));
    ES_ASSIGN_OR_RETURN(float* out, Array<float>(call.out, uint64_t{call.rows} * spec.hidden));
    ES_ASSIGN_OR_RETURN(Route * routes, Array<Route>(call.routes, uint64_t{call.rows} * spec.top_k));

    Matrix h = reference::FromFloats(in, call.rows, spec.hidden);
    reference::RmsNorm(h, reference::DecodeVector(spec.norm, record), spec.norm_epsilon);
    std::copy(h.values.begin(), h.values.end(), out);
    Matrix router(spec.experts, spec.hidden);
    router.values = reference::DecodeVector(spec.router, record);
    const std::vector<double> bias = reference::DecodeVector(spec.bias, record);
    const Matrix logits = reference::Product(h, router);
    std::vector<uint32_t> experts(spec.top_k);
    std::vector<float> weights(spec.top_k);
    for (uint32_t r = 0; r < call.rows; ++r) {
      if (!reference::Choose(spec, {logits.row(r), spec.experts}, bias, experts.data(), weights.data())) {
        return Status::Device(fmt::format("router logit of row {} is not finite", r));
      }
      for (uint32_t i = 0; i < spec.top_k; ++i) routes[uint64_t{r} * spec.top_k + i] = {experts[i], r, weights[i]};
    }
    return Status::Ok();
  }

  Status RunExperts(const ExpertSpec& spec, const ExpertInvocation& call) {
    ES_ASSIGN_OR_RETURN(const float* x, Array<float>(call.x, uint64_t{call.tokens} * spec.hidden));
    ES_ASSIGN_OR_RETURN(float* y, Array<float>(call.y, uint64_t{call.tokens} * spec.hidden));
    ES_ASSIGN_OR_RETURN(const Route* routes, Array<Route>(call.routes, call.route_count));
    ES_ASSIGN_OR_RETURN(const int32_t* placement, Array<int32_t>(call.placement, call.expert_count));
    ES_ASSIGN_OR_RETURN(const std::byte* arena, buffers_.Resolve(call.arena, call.slot_stride * call.slot_count));
    if (call.slot_stride < spec.record_bytes) {
      return Status::InvalidArgument(
          fmt::format("slots of {} bytes, records have {}", call.slot_stride, spec.record_bytes));
    }
    for (uint32_t i = 0; i < call.route_count; ++i) {
      if (routes[i].token >= call.tokens) {
        return Status::InvalidArgument(fmt::format("route {} names token {} of {}", i, routes[i].token, call.tokens));
      }
    }
    std::vector<uint32_t> offsets(call.slot_count + 1);
    std::vector<RouteRecord> records(call.route_count);
    if (!BuildRouteMap({routes, call.route_count}, {placement, call.expert_count}, offsets, records)) {
      return Status::InvalidArgument("a route's expert is in no slot");
    }
    for (uint32_t s = 0; s < call.slot_count; ++s) {
      const std::span<const RouteRecord> mine(records.data() + offsets[s], offsets[s + 1] - offsets[s]);
      if (!mine.empty()) RunSlot(spec, arena + s * call.slot_stride, mine, routes, x, y);
    }
    return Status::Ok();
  }

  // One expert: gather, gate and up, SwiGLU, down, weighted scatter-add.                                        (eq.
  // 1-2)
  void RunSlot(const ExpertSpec& spec, const std::byte* record, std::span<const RouteRecord> mine, const Route* routes,
               const float* x, float* y) {
    Matrix z(static_cast<uint32_t>(mine.size()), spec.hidden);
    for (uint32_t i = 0; i < z.rows; ++i) {
      std::copy_n(x + uint64_t{mine[i].token} * spec.hidden, spec.hidden, z.row(i));
    }
    const Matrix out = reference::GatedFfn(z, spec.gate, spec.up, spec.down, record);
    for (uint32_t i = 0; i < out.rows; ++i) {
      float* row = y + uint64_t{mine[i].token} * spec.hidden;
      const double weight = routes[mine[i].route].weight;
      for (uint32_t c = 0; c < spec.hidden; ++c) row[c] = static_cast<float>(row[c] + weight * out.row(i)[c]);
    }
  }

  DeviceTraits traits_;
  BufferTable buffers_;
  GraphTable<Graph> graphs_;
  Ticket ticket_ = 0;
};

}  // namespace

std::unique_ptr<Device> MakeReferenceDevice(const DeviceOptions& options) {
  return std::make_unique<ReferenceDevice>(options);
}

}  // namespace estream
