// SPDX-License-Identifier: Apache-2.0
// The pass sees an ordinary expert stream; between the two stands a probe with a clock.
#include "engine/calibrate.h"

#include <algorithm>
#include <utility>

#include "base/macros.h"
#include "base/trace.h"
#include "engine/expert_setup.h"

namespace estream {
namespace {

// Layers whose routes a profile keeps, the last one apart: a quarter of a megabyte at most for known models.
constexpr size_t kMostSamples = 16;

uint64_t Mean(std::span<const uint64_t> values) {
  uint64_t sum = 0;
  for (const uint64_t v : values) sum += v;
  return values.empty() ? 0 : sum / values.size();
}

}  // namespace

ModelPlan FirstLayers(const ModelPlan& plan, uint32_t sparse_layers) {
  ModelPlan part = plan;
  if (sparse_layers >= plan.sparse_layers.size()) return part;
  part.layers.resize(plan.sparse_layers[sparse_layers - 1] + 1);
  part.sparse_layers.resize(sparse_layers);
  return part;
}

// Notes when each layer's experts begin and end, and their routes.
class CalibrationRig::Probe : public ExpertStream {
 public:
  Probe(ExpertStream* inner, const ComputeClock* clock, uint32_t experts, const std::atomic<bool>* cancel)
      : inner_(inner), clock_(clock), experts_(experts), cancel_(cancel) {}

  Status StartRequest(const RouteCounts& expected) override {
    blocks_ns.clear();
    routes.clear();
    experts_ns = 0;
    begin_ns = end_ns = NowNs();
    return inner_->StartRequest(expected);
  }
  void Begin(uint32_t layer) override { inner_->Begin(layer); }
  Status Run(const ExpertWork& work) override {
    if (cancel_ != nullptr && *cancel_) return Status::Cancelled("interrupted");
    const uint64_t now = NowNs(), busy = clock_->busy_ns;
    blocks_ns.push_back(now - end_ns);
    routes.emplace_back(experts_);
    for (uint32_t i = 0; i < work.route_count; ++i) ++routes.back()[work.host_routes[i].expert];
    const Status status = inner_->Run(work);
    end_ns = NowNs();
    experts_ns += clock_->busy_ns - busy;
    return status;
  }
  void EndRequest() override { inner_->EndRequest(); }

  std::vector<uint64_t> blocks_ns;            // by sparse layer
  std::vector<std::vector<uint32_t>> routes;  // by sparse layer and expert
  uint64_t experts_ns = 0;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;  // of the last layer's experts

 private:
  ExpertStream* const inner_;
  const ComputeClock* const clock_;
  const uint32_t experts_;
  const std::atomic<bool>* const cancel_;
};

CalibrationRig::CalibrationRig(std::shared_ptr<const ModelFile> model, const ModelPlan& plan,
                               const EngineOptions& options, uint32_t max_tokens, const std::atomic<bool>* cancel)
    : model_(std::move(model)), plan_(plan), options_(options), max_tokens_(max_tokens), cancel_(cancel) {}

CalibrationRig::~CalibrationRig() = default;

Result<std::unique_ptr<CalibrationRig>> CalibrationRig::Create(std::shared_ptr<const ModelFile> model,
                                                               const ModelPlan& plan, const EngineOptions& options,
                                                               uint32_t max_tokens, const std::atomic<bool>* cancel) {
  std::unique_ptr<CalibrationRig> rig(new CalibrationRig(std::move(model), plan, options, max_tokens, cancel));
  ES_RETURN_IF_ERROR(rig->Init());
  return rig;
}

Status CalibrationRig::Init() {
  ES_ASSIGN_OR_RETURN(device_, MakeDevice({options_.device, options_.threads, nullptr, options_.activations, nullptr}));
  source_ = model_->MakeRecords(false);
  ES_ASSIGN_OR_RETURN(graphs_, GraphSet::Build(plan_, CapacityOf(plan_, max_tokens_), device_.get()));
  ES_ASSIGN_OR_RETURN(blocks_, LoadBlocks(plan_, source_.get(), device_.get()));
  return Status::Ok();
}

Status CalibrationRig::SetShape(Schedule schedule, const StreamShape& shape) {
  prefill_.reset();
  probe_.reset();
  streaming_.reset();
  ES_ASSIGN_OR_RETURN(streaming_, StreamFromPack(*model_, plan_, graphs_, options_.experts, schedule, shape,
                                                 CapacityOf(plan_, max_tokens_), &clock_, device_.get()));
  probe_ = std::make_unique<Probe>(streaming_.get(), &clock_, plan_.experts, cancel_);
  ES_ASSIGN_OR_RETURN(
      prefill_,
      Prefill::Create({&plan_, &graphs_, &blocks_, probe_.get(), source_.get(), device_.get(), &clock_}, max_tokens_));
  return Status::Ok();
}

Result<MeasuredRequest> CalibrationRig::Run(uint32_t tokens) {
  std::vector<int32_t> ids;
  uint32_t state = tokens;
  for (uint32_t i = 0; i < tokens; ++i) {
    state = state * 69069 + 1;
    ids.push_back(static_cast<int32_t>((state >> 4) % plan_.vocabulary));
  }
  const uint32_t last = tokens - 1;
  const uint64_t busy = clock_.busy_ns, io = streaming_->counts().io_ns;
  uint64_t end_ns = 0;
  const uint64_t begin_ns = NowNs();
  ES_RETURN_IF_ERROR(prefill_
                         ->Run(ids, std::span(&last, 1),
                               [&](uint32_t, std::span<const float>) {
                                 end_ns = NowNs();
                                 return Status::Ok();
                               })
                         .status());
  MeasuredRequest request;
  request.total_ns = end_ns - begin_ns;
  request.experts_ns = probe_->experts_ns;
  const uint64_t limit = std::max(clock_.busy_ns - busy, streaming_->counts().io_ns - io);
  request.bubble_rate = 1 - static_cast<double>(limit) / static_cast<double>(request.total_ns);

  LengthTimes& times = request.times;
  const std::span<const uint64_t> blocks(probe_->blocks_ns);
  times.tokens = tokens;
  times.first_ns = blocks.front();
  times.last_ns = blocks.back();
  times.block_ns = blocks.size() > 2 ? Mean(blocks.subspan(1, blocks.size() - 2)) : times.first_ns;
  times.tail_ns = end_ns - probe_->end_ns + (probe_->begin_ns - begin_ns);
  const size_t full = blocks.size() - 1;  // layers of all rows
  const size_t kept = std::min(full, kMostSamples);
  for (size_t i = 0; i < kept; ++i) times.routes.push_back(probe_->routes[i * full / kept]);
  if (kept == 0) times.routes.push_back(probe_->routes.back());
  times.routes.push_back(probe_->routes.back());
  return request;
}

}  // namespace estream
