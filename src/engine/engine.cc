// SPDX-License-Identifier: Apache-2.0
// Puts the parts together: records onto the device, graphs built once, a forward pass per request.
#include "estream/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/ledger.h"
#include "base/macros.h"
#include "device/device.h"
#include "engine/expert_setup.h"
#include "engine/model_file.h"
#include "engine/shape_plan.h"
#include "model/prefill.h"
#include "pipeline/resident_experts.h"
#include "pipeline/streaming_experts.h"

namespace estream {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class EngineImpl : public Engine {
 public:
  explicit EngineImpl(std::shared_ptr<const ModelFile> model) : model_(std::move(model)) {}

  Status Init(const EngineOptions& options);

  const Model& model() const override { return *model_; }
  std::string device_description() const override { return device_->traits().description; }
  std::string activations() const override { return device_->traits().activations; }
  uint32_t max_tokens() const override { return max_tokens_; }
  Result<PrefillReport> Prefill(const PrefillRequest& request, const LogitsSink& sink) override;
  std::vector<MemoryUse> memory() const override;
  std::string expert_description() const override;
  std::string TraceJson() const override { return clock_.trace != nullptr ? trace_.ToJson() : std::string(); }

 private:
  Status CheckTokens(std::span<const int32_t> tokens) const;
  Status CheckRows(std::span<const uint32_t> rows, size_t tokens) const;
  Status ChooseShape(const EngineOptions& options);
  Status MakeExperts(const ExpertOptions& options, const Capacity& capacity);
  Result<std::unique_ptr<ExpertStream>> LoadResidentExperts(const Capacity& capacity);

  // Order matters: what is declared later uses what is declared earlier.
  const std::shared_ptr<const ModelFile> model_;
  MemoryLedger ledger_;
  TraceRecorder trace_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<RecordSource> source_;
  GraphSet graphs_;
  BlockWeights blocks_;
  ComputeClock clock_;
  Schedule schedule_ = Schedule::kResident;
  StreamShape shape_;
  std::unique_ptr<ExpertStream> experts_;
  StreamingExperts* streaming_ = nullptr;  // experts_, when it streams
  std::unique_ptr<estream::Prefill> prefill_;
  uint32_t max_tokens_ = 0;
};

Status EngineImpl::Init(const EngineOptions& options) {
  const ModelPlan& plan = model_->plan();
  max_tokens_ = options.max_tokens == 0 ? plan.context : options.max_tokens;
  if (max_tokens_ > plan.context) {
    return Status::InvalidArgument(fmt::format("{}: {} tokens asked for, the model's context is {}",
                                               model_->info().path, max_tokens_, plan.context));
  }
  ES_RETURN_IF_ERROR(ChooseShape(options));
  if (options.trace) clock_.trace = &trace_;
  ES_ASSIGN_OR_RETURN(device_,
                      MakeDevice({options.device, options.threads, &ledger_, options.activations, clock_.trace}));
  source_ = model_->MakeRecords(options.experts.check_hashes);
  const Capacity capacity = CapacityOf(plan, max_tokens_);
  ES_ASSIGN_OR_RETURN(graphs_, GraphSet::Build(plan, capacity, device_.get()));
  ES_ASSIGN_OR_RETURN(blocks_, LoadBlocks(plan, source_.get(), device_.get()));
  ES_RETURN_IF_ERROR(MakeExperts(options.experts, capacity));
  ES_ASSIGN_OR_RETURN(
      prefill_,
      Prefill::Create({&plan, &graphs_, &blocks_, experts_.get(), source_.get(), device_.get(), &clock_}, max_tokens_));
  return Status::Ok();
}

// Before anything is loaded, so that what does not fit is refused at once.
Status EngineImpl::ChooseShape(const EngineOptions& options) {
  ES_ASSIGN_OR_RETURN(schedule_, ScheduleOf(*model_, options.experts));
  if (options.memory_bytes != 0 || options.profile != nullptr) {
    ES_ASSIGN_OR_RETURN(const ShapePlan plan, PlanShape(*model_, options, max_tokens_, {max_tokens_}));
    shape_ = plan.shape;
  } else if (schedule_ != Schedule::kResident) {
    const StreamShape asked = {options.experts.group_size, options.experts.bank_count, options.experts.queue_depth};
    const ModelPlan& plan = model_->plan();
    ES_ASSIGN_OR_RETURN(shape_, ResolveShape(schedule_, asked, plan.experts, plan.sparse_layers.size()));
  }
  return Status::Ok();
}

Status EngineImpl::MakeExperts(const ExpertOptions& options, const Capacity& capacity) {
  if (schedule_ == Schedule::kResident) {
    ES_ASSIGN_OR_RETURN(experts_, LoadResidentExperts(capacity));
    return Status::Ok();
  }
  ES_ASSIGN_OR_RETURN(auto streaming, StreamFromPack(*model_, model_->plan(), graphs_, options, schedule_, shape_,
                                                     capacity, &clock_, device_.get()));
  streaming_ = streaming.get();
  experts_ = std::move(streaming);
  return Status::Ok();
}

Result<std::unique_ptr<ExpertStream>> EngineImpl::LoadResidentExperts(const Capacity& capacity) {
  const ModelPlan& plan = model_->plan();
  ES_ASSIGN_OR_RETURN(const std::vector<BufferRef> arenas, LoadExperts(plan, source_.get(), device_.get()));
  ES_ASSIGN_OR_RETURN(const DeviceBuffer placement, device_->Allocate(plan.experts * sizeof(int32_t), "placement"));
  std::iota(placement.as<int32_t>(), placement.as<int32_t>() + plan.experts, 0);
  std::vector<ResidentLayer> layers;
  for (size_t i = 0; i < arenas.size(); ++i) {
    layers.push_back({graphs_.layers[plan.sparse_layers[i]].experts, arenas[i]});
  }
  return MakeResidentExperts(device_.get(), std::move(layers),
                             {plan.experts, plan.expert_stride, capacity.routes, placement.ref(), &clock_});
}

Status EngineImpl::CheckTokens(std::span<const int32_t> tokens) const {
  if (tokens.empty()) return Status::InvalidArgument("the prompt has no tokens");
  if (tokens.size() > max_tokens_) {
    return Status::InvalidArgument(
        max_tokens_ == model_->plan().context
            ? fmt::format("the prompt has {} tokens, the model's context is {}", tokens.size(), max_tokens_)
            : fmt::format("the prompt has {} tokens, the engine was opened for {}", tokens.size(), max_tokens_));
  }
  for (const int32_t t : tokens) {
    if (t < 0 || static_cast<uint32_t>(t) >= model_->plan().vocabulary) {
      return Status::InvalidArgument(
          fmt::format("token {} is outside the vocabulary of {} entries", t, model_->plan().vocabulary));
    }
  }
  return Status::Ok();
}

Status EngineImpl::CheckRows(std::span<const uint32_t> rows, size_t tokens) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= tokens)
      return Status::InvalidArgument(fmt::format("row {} of a prompt of {} tokens", rows[i], tokens));
    if (i > 0 && rows[i] <= rows[i - 1]) return Status::InvalidArgument("rows must ascend without repeats");
  }
  return Status::Ok();
}

Result<PrefillReport> EngineImpl::Prefill(const PrefillRequest& request, const LogitsSink& sink) {
  ES_RETURN_IF_ERROR(CheckTokens(request.tokens));
  ES_RETURN_IF_ERROR(CheckRows(request.rows, request.tokens.size()));
  const auto last = static_cast<uint32_t>(request.tokens.size() - 1);
  const std::span<const uint32_t> rows = request.rows.empty() ? std::span(&last, 1) : request.rows;

  const uint64_t busy_before = clock_.busy_ns;
  const StreamCounts before = streaming_ != nullptr ? streaming_->counts() : StreamCounts();
  const Clock::time_point start = Clock::now();
  ES_ASSIGN_OR_RETURN(const PrefillCounts counts, prefill_->Run(request.tokens, rows, sink));
  PrefillReport report;
  report.tokens = last + 1;
  report.ttft_s = Seconds(start, counts.first_logits);
  report.total_s = Seconds(start, Clock::now());
  report.routes = counts.routes;
  report.active_experts = counts.active_experts;
  report.compute_s = static_cast<double>(clock_.busy_ns - busy_before) * 1e-9;
  if (streaming_ != nullptr) {
    const StreamCounts now = streaming_->counts();
    report.io_s = static_cast<double>(now.io_ns - before.io_ns) * 1e-9;
    report.stall_s = static_cast<double>(now.stall_ns - before.stall_ns) * 1e-9;
    report.read_bytes = now.read_bytes - before.read_bytes;
    report.wasted_bytes = now.wasted_bytes - before.wasted_bytes;
    report.early_groups = now.early_hits - before.early_hits;
    report.later_groups = now.missed - before.missed;
  }
  return report;
}

std::vector<MemoryUse> EngineImpl::memory() const {
  std::vector<MemoryUse> uses;
  for (const MemoryLedger::Entry& e : ledger_.Entries()) uses.push_back({e.name, e.bytes});
  std::stable_sort(uses.begin(), uses.end(), [](const MemoryUse& a, const MemoryUse& b) { return a.bytes > b.bytes; });
  return uses;
}

std::string EngineImpl::expert_description() const {
  if (streaming_ == nullptr) return "resident";
  return fmt::format("{}, G={} B={} Q={}, {}", ScheduleName(schedule_), shape_.group_size, shape_.bank_count,
                     shape_.queue_depth, streaming_->read_mode().ToString());
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Open(std::shared_ptr<const Model> model, const EngineOptions& options) {
  auto file = std::dynamic_pointer_cast<const ModelFile>(model);
  if (file == nullptr) return Status::InvalidArgument("the model was not opened by Model::Open");
  auto engine = std::make_unique<EngineImpl>(std::move(file));
  ES_RETURN_IF_ERROR(engine->Init(options));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace estream
