// SPDX-License-Identifier: Apache-2.0
// Real requests that are timed layer by layer: T_ne, routes, and what streaming adds to computing.              (§3.4)
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model_file.h"
#include "estream/engine.h"
#include "estream/status.h"
#include "model/graph_set.h"
#include "model/prefill.h"
#include "pipeline/service_profile.h"
#include "pipeline/streaming_experts.h"

namespace estream {

// A model's first layers, up to its `sparse_layers`th sparse one; all of them when it has no more.
ModelPlan FirstLayers(const ModelPlan& plan, uint32_t sparse_layers);

// One request as it was.
struct MeasuredRequest {
  uint64_t total_ns = 0;
  uint64_t experts_ns = 0;  // computing experts
  double bubble_rate = 0;
  LengthTimes times;  // exec_scale is still 1
};

// A model on a device, for requests of known token ids.
class CalibrationRig {
 public:
  // `plan`, the model's or its first layers, and `cancel` (or null) outlive the rig.         Errors: as Engine::Open.
  static Result<std::unique_ptr<CalibrationRig>> Create(std::shared_ptr<const ModelFile> model, const ModelPlan& plan,
                                                        const EngineOptions& options, uint32_t max_tokens,
                                                        const std::atomic<bool>* cancel);
  ~CalibrationRig();

  Device* device() const { return device_.get(); }
  RecordSource* source() const { return source_.get(); }
  ReadMode read_mode() const { return streaming_->read_mode(); }

  // The shape of the requests to come.
  Status SetShape(Schedule schedule, const StreamShape& shape);
  // One prompt of `tokens` ids spread over the vocabulary. Pre: SetShape. Errors: Cancelled; as Engine::Prefill.
  Result<MeasuredRequest> Run(uint32_t tokens);

 private:
  class Probe;
  CalibrationRig(std::shared_ptr<const ModelFile> model, const ModelPlan& plan, const EngineOptions& options,
                 uint32_t max_tokens, const std::atomic<bool>* cancel);
  Status Init();

  const std::shared_ptr<const ModelFile> model_;
  const ModelPlan& plan_;
  const EngineOptions options_;
  const uint32_t max_tokens_;
  const std::atomic<bool>* const cancel_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<RecordSource> source_;
  GraphSet graphs_;
  BlockWeights blocks_;
  ComputeClock clock_;
  std::unique_ptr<StreamingExperts> streaming_;
  std::unique_ptr<Probe> probe_;
  std::unique_ptr<Prefill> prefill_;
};

}  // namespace estream
