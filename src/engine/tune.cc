// SPDX-License-Identifier: Apache-2.0
// Tuning: reads, experts, calibration requests; then a choice, and one more request to see whether it is true.
#include "estream/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/macros.h"
#include "base/trace.h"
#include "engine/calibrate.h"
#include "engine/expert_setup.h"
#include "engine/measure_experts.h"
#include "engine/measure_reads.h"
#include "engine/profile_file.h"
#include "engine/profile_store.h"
#include "engine/shape_plan.h"

namespace estream {
namespace {

double SecondsOf(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

// What is measured, in full or in a hurry.
struct Scope {
  std::vector<uint32_t> group_sizes;
  std::vector<uint32_t> depths = {1, 2, 4, 8};
  std::vector<uint32_t> routes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  double read_seconds = 0.04;
  double expert_seconds = 0.03;
  uint32_t layers = UINT32_MAX;      // sparse ones that calibration runs; the last computes one row
  std::vector<uint32_t> lengths;     // in the order in which they are run
  double calibration_seconds = 1e9;  // no request begins later
};

std::vector<uint32_t> Within(const std::vector<uint32_t>& lengths, uint32_t context) {
  std::vector<uint32_t> within;
  for (const uint32_t tokens : lengths) {
    if (tokens >= 1 && tokens <= context) within.push_back(tokens);
  }
  if (within.empty()) within.push_back(context);
  return within;
}

Scope FullScope(const ModelPlan& plan, const std::vector<uint32_t>& lengths) {
  Scope scope;
  scope.group_sizes = GroupSizes(plan.experts);
  const std::set<uint32_t> ascending(lengths.begin(), lengths.end());
  scope.lengths.assign(ascending.begin(), ascending.end());
  return scope;
}

Scope QuickScope(const ModelPlan& plan) {
  Scope scope;
  const uint32_t most = std::min(16u, plan.experts);
  for (const uint32_t g : {1u, 4u, 16u}) {
    if (g < most) scope.group_sizes.push_back(g);
  }
  scope.group_sizes.push_back(most);
  scope.depths = {1, 2, 4};
  scope.routes = {1, 8, 64, 512};
  scope.read_seconds = 0.015;
  scope.expert_seconds = 0.01;
  scope.layers = 3;
  scope.lengths = Within({256, 16, 1024}, plan.context);  // the most telling one first
  scope.calibration_seconds = 0.8;
  return scope;
}

class Tuner {
 public:
  Tuner(std::shared_ptr<const ModelFile> model, const EngineOptions& options, const TuneOptions& tune)
      : model_(std::move(model)),
        options_(options),
        tune_(tune),
        lengths_(Within(tune.lengths, model_->plan().context)),
        scope_(tune.quick ? QuickScope(model_->plan()) : FullScope(model_->plan(), lengths_)),
        part_(FirstLayers(model_->plan(), std::max(1u, scope_.layers))) {}

  Result<TuneReport> Run() {
    const uint64_t begin = NowNs();
    ES_ASSIGN_OR_RETURN(profile_.key, ProfileKeyOf(*model_, options_));
    ES_RETURN_IF_ERROR(Measure());
    ES_RETURN_IF_ERROR(Calibrate());
    ES_RETURN_IF_ERROR(Choose());
    if (!tune_.quick) ES_RETURN_IF_ERROR(Verify());
    if (tune_.cancel != nullptr && *tune_.cancel) return Status::Cancelled("interrupted");
    Describe();
    ES_ASSIGN_OR_RETURN(report_.path, SaveProfile(profile_, model_->pack()->path()));
    report_.skipped_lengths = static_cast<uint32_t>(std::count_if(
        tune_.lengths.begin(), tune_.lengths.end(), [&](uint32_t tokens) { return tokens > model_->plan().context; }));
    report_.seconds = SecondsOf(NowNs() - begin);
    return report_;
  }

 private:
  void Progress(const char* phase, double share) const {
    if (tune_.progress) tune_.progress(phase, share);
  }

  Status Measure() {
    ReadMeasureOptions reads;
    ES_ASSIGN_OR_RETURN(reads.engine, ParseStorage(options_.experts.storage));
    reads.group_sizes = scope_.group_sizes;
    reads.depths = scope_.depths;
    reads.seconds = scope_.read_seconds;
    reads.progress = [this](double share) { Progress("reads", share); };
    reads.cancel = tune_.cancel;
    ES_ASSIGN_OR_RETURN(profile_.times.reads, MeasureReads(*model_->pack(), model_->plan(), reads));
    for (const ReadTime& r : profile_.times.reads) {
      report_.reads.push_back({static_cast<uint32_t>(r.bytes / model_->plan().expert_stride), r.depth,
                               static_cast<double>(r.bytes) * r.depth / SecondsOf(r.ns)});
    }

    Progress("experts", 0);
    const uint32_t longest = *std::max_element(scope_.lengths.begin(), scope_.lengths.end());
    ES_ASSIGN_OR_RETURN(rig_, CalibrationRig::Create(model_, part_, options_, longest, tune_.cancel));
    ExpertMeasureOptions experts;
    experts.routes = scope_.routes;
    experts.seconds = scope_.expert_seconds;
    experts.progress = [this](double share) { Progress("experts", share); };
    experts.cancel = tune_.cancel;
    ES_ASSIGN_OR_RETURN(profile_.times.classes, MeasureExperts(part_, rig_->source(), rig_->device(), experts));
    return Status::Ok();
  }

  Status Calibrate() {
    const uint32_t depth = ChooseQueueDepth(profile_.times);
    const StreamShape shape = {std::min(4u, part_.experts), std::max(3u, depth), depth};
    ES_RETURN_IF_ERROR(rig_->SetShape(Schedule::kStream, shape));
    const StreamedModel streamed = StreamedModelOf(part_);
    const uint64_t begin = NowNs();
    double done = 0, all = 0;  // in tokens
    for (const uint32_t tokens : scope_.lengths) all += tokens + 256;
    for (const uint32_t tokens : scope_.lengths) {
      if (!profile_.times.lengths.empty() && SecondsOf(NowNs() - begin) > scope_.calibration_seconds) break;
      Progress("requests", done / all);
      done += tokens + 256;
      ES_ASSIGN_OR_RETURN(MeasuredRequest request, rig_->Run(tokens));
      const ModelRequest model =
          RequestMaker(profile_.times, streamed, request.times).Make(Schedule::kStream, shape.group_size, depth);
      uint64_t alone = 0;
      for (const ModelLayer& layer : model.layers) {
        for (const ModelGroup& group : layer.groups) alone += group.routed ? group.exec_ns : 0;
      }
      request.times.exec_scale = std::clamp(
          static_cast<double>(request.experts_ns) / static_cast<double>(std::max<uint64_t>(1, alone)), 0.1, 10.0);
      report_.calibrations.push_back({tokens, SecondsOf(request.total_ns), request.times.exec_scale});
      profile_.times.lengths.push_back(std::move(request.times));
    }
    std::sort(profile_.times.lengths.begin(), profile_.times.lengths.end(),
              [](const LengthTimes& a, const LengthTimes& b) { return a.tokens < b.tokens; });
    return Status::Ok();
  }

  Status Choose() {
    EngineOptions options = options_;
    options.profile = std::make_shared<const TuningProfile>(profile_);
    const uint32_t longest = *std::max_element(lengths_.begin(), lengths_.end());
    ES_ASSIGN_OR_RETURN(const ShapePlan plan, PlanShape(*model_, options, longest, lengths_));
    chosen_ = plan.shape;
    report_.chosen = {chosen_.group_size, chosen_.bank_count, chosen_.queue_depth,
                      ArenaBytes(StreamedModelOf(model_->plan()), chosen_)};
    return Status::Ok();
  }

  // One more request: of the length nearest to 1,024 tokens, the paper's.
  Status Verify() {
    uint32_t tokens = scope_.lengths.front();
    for (const uint32_t l : scope_.lengths) {
      if (l <= 1024) tokens = l;
    }
    Progress("verification", 0);
    ES_RETURN_IF_ERROR(rig_->SetShape(Schedule::kStream, chosen_));
    ES_ASSIGN_OR_RETURN(const MeasuredRequest request, rig_->Run(tokens));
    report_.predicted =
        PredictPass(profile_.times, StreamedModelOf(model_->plan()), tokens, Schedule::kStream, chosen_);
    report_.measured_ttft_s = SecondsOf(request.total_ns);
    report_.measured_bubble_rate = request.bubble_rate;
    return Status::Ok();
  }

  void Describe() {
    profile_.name = std::filesystem::path(model_->pack()->path()).filename().string();
    profile_.note = tune_.quick ? "measured in a hurry, on first use" : "measured by estream tune";
    profile_.quick = tune_.quick;
    const ModelInfo& info = model_->info();
    profile_.model = {info.sparse_layers, info.experts, info.top_k, info.hidden};
  }

  const std::shared_ptr<const ModelFile> model_;
  const EngineOptions options_;
  const TuneOptions& tune_;
  const std::vector<uint32_t> lengths_;
  const Scope scope_;
  const ModelPlan part_;
  std::unique_ptr<CalibrationRig> rig_;
  TuningProfile profile_;
  StreamShape chosen_;
  TuneReport report_;
};

}  // namespace

Result<TuneReport> TuneModel(std::shared_ptr<const Model> model, const EngineOptions& options,
                             const TuneOptions& tune) {
  auto file = std::dynamic_pointer_cast<const ModelFile>(model);
  if (file == nullptr) return Status::InvalidArgument("the model was not opened by Model::Open");
  return Tuner(std::move(file), options, tune).Run();
}

}  // namespace estream
