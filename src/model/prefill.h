// SPDX-License-Identifier: Apache-2.0
// One causal pass over a prompt, in reading order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "device/device.h"
#include "estream/status.h"
#include "family/model_plan.h"
#include "family/record_source.h"
#include "model/graph_set.h"
#include "model/resident_weights.h"
#include "pipeline/compute_clock.h"
#include "pipeline/expert_stream.h"

namespace estream {

// Sees what a pass computes between its ends; for checking a model layer by layer.
class PrefillObserver {
 public:
  virtual ~PrefillObserver() = default;
  // The chosen experts of `rows` rows, best first: routes [rows, top_k].
  virtual void OnRoutes(uint32_t layer, std::span<const Route> routes) = 0;
  // The residual after a layer, [rows, hidden].
  virtual void OnLayer(uint32_t layer, std::span<const float> residual) = 0;
};

// What a pass works with; all of it outlives the Prefill.
struct PrefillParts {
  const ModelPlan* plan = nullptr;
  const GraphSet* graphs = nullptr;
  const BlockWeights* weights = nullptr;
  ExpertStream* experts = nullptr;
  RecordSource* source = nullptr;  // embedding rows
  Device* device = nullptr;
  ComputeClock* clock = nullptr;
};

// What one pass counted.
struct PrefillCounts {
  uint64_t routes = 0;          // expert evaluations of rows
  uint64_t active_experts = 0;  // (layer, expert) pairs with a route
  std::chrono::steady_clock::time_point first_logits;
};

class Prefill {
 public:
  // Logits of one row, [vocabulary].
  using Sink = std::function<Status(uint32_t row, std::span<const float> logits)>;

  // Allocates everything a pass of `max_tokens` needs. Errors: OverBudget.
  static Result<std::unique_ptr<Prefill>> Create(const PrefillParts& parts, uint32_t max_tokens);
  ~Prefill();

  // Runs the prompt; `sink` receives the logits of each of `rows` in turn. The last layer computes only these rows.
  //
  //   tokens  [T] 1 <= T <= max_tokens, ids below the vocabulary
  //   rows    ascending positions < T, at least one
  //
  // Errors: Device with the layer's number, Io, Corrupt, or what `sink` returns.
  Result<PrefillCounts> Run(std::span<const int32_t> tokens, std::span<const uint32_t> rows, const Sink& sink,
                            PrefillObserver* observer = nullptr);

 private:
  explicit Prefill(const PrefillParts& parts) : parts_(parts), plan_(*parts.plan), device_(parts.device) {}
  Result<PrefillCounts> RunRequest(std::span<const int32_t> tokens, std::span<const uint32_t> rows, const Sink& sink,
                                   PrefillObserver* observer);
  Status Embed(uint32_t tokens);
  Status RunLayer(uint32_t layer, uint32_t tokens, std::span<const uint32_t> rows, PrefillObserver* observer,
                  PrefillCounts* counts);
  Status RunMixer(uint32_t layer, uint32_t tokens, std::span<const uint32_t> rows);
  Status RunDenseFfn(uint32_t layer, uint32_t rows);
  Status RunFfn(uint32_t layer, uint32_t rows, const char* name);
  Status RunSparseFfn(uint32_t layer, uint32_t rows, PrefillObserver* observer, PrefillCounts* counts);
  Status SortRoutes(uint32_t layer, uint32_t count, PrefillCounts* counts);
  Status RunHead(std::span<const uint32_t> rows, const Sink& sink, PrefillCounts* counts);
  Status Submit(const BlockInvocation& call, const char* name, uint32_t layer = 0);
  Status WaitForAll(const char* name, uint32_t layer = 0);

  // Constant after Create.
  const PrefillParts parts_;
  const ModelPlan& plan_;
  Device* const device_;
  uint32_t head_rows_ = 0;  // rows of logits held at once

  DeviceBuffer embedding_rows_;    // [max_tokens] rows in GGUF layout
  DeviceBuffer residual_;          // x [max_tokens, hidden]
  DeviceBuffer last_residual_;     // the last layer's rows, when not all are asked for
  DeviceBuffer normed_;            // h [max_tokens, hidden]
  DeviceBuffer row_ids_;           // [max_tokens]
  DeviceBuffer routes_;            // [max_tokens, top_k] as routed
  DeviceBuffer sorted_routes_;     // the same, by expert
  DeviceBuffer logits_;            // [head_rows, vocabulary]
  std::vector<uint32_t> cursors_;  // [experts + 1]

  // The pass under way.
  BufferRef x_;                // its residual
  uint32_t sparse_index_ = 0;  // sparse layers run so far
  Ticket last_ = 0;
};

}  // namespace estream
