// SPDX-License-Identifier: Apache-2.0
// The executor: it holds at most one lease while it looks for the next group, and none while it waits for one, so that
// the smallest arena of a schedule never waits for itself.
#include "pipeline/streaming_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/macros.h"
#include "residency/loader.h"

namespace estream {
namespace {

constexpr uint32_t kArena = 0;  // the loader's number of the expert arena
constexpr uint32_t kFile = 0;

class StreamingExpertsImpl : public StreamingExperts {
 public:
  StreamingExpertsImpl(std::vector<StreamedLayer> layers, const StreamOptions& options, Device* device)
      : layers_(std::move(layers)), options_(options), device_(device), route_counts_(options.expert_count) {}
  ~StreamingExpertsImpl() override;

  Status Init(std::shared_ptr<RecordFile> file);

  Status StartRequest(const RouteCounts& expected) override;
  void Begin(uint32_t layer) override;
  Status Run(const ExpertWork& work) override;
  void EndRequest() override;
  StreamCounts counts() const override;
  ReadMode read_mode() const override { return engine_->mode(); }

 private:
  Status MakeTape();
  std::vector<uint32_t> EarlyReads(const RouteCounts& expected) const;
  Status RunGroup(const ExpertWork& work, uint32_t group, uint32_t first_route, uint32_t route_count);
  Result<BankLease> Take(uint32_t layer, uint32_t group);
  Status CheckRecords(const BankLease& lease, uint32_t layer, uint32_t group) const;
  Status RunWithOwnGraph(const ExpertWork& work, const BankLease& lease, uint32_t group, uint32_t first_route,
                         uint32_t route_count);
  Status Submit(const ExpertWork& work, const BankLease& lease, uint32_t graph, uint32_t group, uint32_t first_route,
                uint32_t route_count);
  Status Settle();
  TraceRecorder* trace() const { return options_.clock->trace; }
  void OnRead(const ReadEvent& event);

  // Constant after Init.
  const std::vector<StreamedLayer> layers_;
  const StreamOptions options_;
  Device* const device_;
  DeviceBuffer arena_;      // [B] banks of [G] slots
  DeviceBuffer placement_;  // [B, E] i32, kNoSlot but for the experts of the bank's group
  std::vector<GroupLayout> layouts_;
  std::vector<uint32_t> layer_end_;  // tape index behind each layer's groups
  std::shared_ptr<const Tape> tape_;
  std::unique_ptr<ReadEngine> engine_;
  std::unique_ptr<Loader> loader_;

  std::vector<uint8_t> routed_before_;  // [tape] groups that the last request to run each layer had routes to

  // The request under way.
  uint64_t epoch_ = 0;
  uint32_t next_layer_ = 0;             // the last one that ran well, plus 1
  std::vector<uint32_t> route_counts_;  // [E]
  // The invocation that was submitted last and the bank it reads; its lease is dropped when it is complete.
  BankLease running_;
  Ticket running_ticket_ = 0;
  uint32_t running_layer_ = 0;
  uint32_t running_group_ = 0;
};

StreamingExpertsImpl::~StreamingExpertsImpl() {
  (void)Settle();  // nobody is left to be told of an error
  loader_.reset();
  if (engine_ != nullptr) engine_->Close();
  if (arena_.id != 0) device_->Free(arena_);
  if (placement_.id != 0) device_->Free(placement_);
}

Status StreamingExpertsImpl::Init(std::shared_ptr<RecordFile> file) {
  const StreamShape& shape = options_.shape;
  ES_RETURN_IF_ERROR(CheckShape(options_.schedule, shape, options_.expert_count));
  const uint64_t bank_bytes = shape.group_size * options_.slot_stride;
  ES_ASSIGN_OR_RETURN(arena_, device_->Allocate(shape.bank_count * bank_bytes, "expert arena"));
  ES_ASSIGN_OR_RETURN(
      placement_, device_->Allocate(uint64_t{shape.bank_count} * options_.expert_count * sizeof(int32_t), "placement"));
  std::fill_n(placement_.as<int32_t>(), uint64_t{shape.bank_count} * options_.expert_count, kNoSlot);
  ES_RETURN_IF_ERROR(MakeTape());

  LoaderArena arena;
  const std::span<std::byte> memory(arena_.host, shape.bank_count * bank_bytes);
  ES_ASSIGN_OR_RETURN(arena.memory, BankArena::Create(memory, shape.group_size, options_.slot_stride));
  arena.layers = static_cast<uint32_t>(layers_.size());
  arena.groups = layouts_[0].group_count();

  ReadEngineOptions engine;
  engine.kind = options_.engine;
  engine.depth = shape.queue_depth;
  engine.register_all = options_.register_buffers;
  std::vector<std::span<std::byte>> banks;
  for (uint32_t b = 0; b < shape.bank_count; ++b) banks.push_back(arena.memory.bank_memory(b));
  ES_ASSIGN_OR_RETURN(engine_, options_.make_engine({std::move(file)}, std::move(banks), engine));

  LoaderOptions loader;
  loader.arenas = {arena};
  loader.depth = shape.queue_depth;
  loader.now_ns = options_.now_ns;
  if (options_.clock->trace != nullptr) loader.on_read = [this](const ReadEvent& event) { OnRead(event); };
  ES_ASSIGN_OR_RETURN(loader_, Loader::Create(engine_.get(), std::move(loader)));
  return Status::Ok();
}

Status StreamingExpertsImpl::MakeTape() {
  auto tape = std::make_shared<Tape>();
  for (uint32_t l = 0; l < layers_.size(); ++l) {
    ES_ASSIGN_OR_RETURN(const GroupLayout layout,
                        GroupLayout::Create(layers_[l].file_offset, layers_[l].record_bytes, options_.expert_count,
                                            options_.shape.group_size));
    layouts_.push_back(layout);
    tape->AppendGroups(layout, kArena, l, kFile);
    layer_end_.push_back(static_cast<uint32_t>(tape->records.size()));
  }
  routed_before_.assign(tape->records.size(), 1);
  tape_ = std::move(tape);
  return Status::Ok();
}

// Groups in the order in which they are read before routes are known.
std::vector<uint32_t> StreamingExpertsImpl::EarlyReads(const RouteCounts& expected) const {
  std::vector<uint32_t> order;
  for (uint32_t l = 0; l < layers_.size(); ++l) {
    const uint64_t routes = l + 1 < layers_.size() ? expected.layer : expected.last;
    if (!ReadsLayerEarly(options_.schedule, routes, options_.expert_count)) continue;
    const auto begin = static_cast<ptrdiff_t>(order.size());
    for (uint32_t i = l == 0 ? 0 : layer_end_[l - 1]; i < layer_end_[l]; ++i) order.push_back(i);
    if (options_.early_order == EarlyOrder::kPack) continue;
    std::stable_partition(order.begin() + begin, order.end(), [&](uint32_t i) { return routed_before_[i] != 0; });
  }
  return order;
}

Status StreamingExpertsImpl::StartRequest(const RouteCounts& expected) {
  WalkOptions walk;
  walk.epoch = ++epoch_;
  walk.early_order = EarlyReads(expected);
  walk.sparse = options_.sparse_reads && ReadsSparse(options_.schedule);
  // Layer-local loading begins with the layer: Begin moves the horizon.
  const Reach reach = ReachOf(options_.schedule);
  if (reach == Reach::kLayer || reach == Reach::kAsked) walk.horizon = 0;
  return loader_->Start(tape_, std::move(walk));
}

void StreamingExpertsImpl::Begin(uint32_t layer) {
  if (ReachOf(options_.schedule) == Reach::kLayer) loader_->SetHorizon(layer_end_[layer]);
}

Status StreamingExpertsImpl::Run(const ExpertWork& work) {
  std::fill(route_counts_.begin(), route_counts_.end(), 0u);
  for (uint32_t i = 0; i < work.route_count; ++i) ++route_counts_[work.host_routes[i].expert];
  ES_RETURN_IF_ERROR(loader_->Decide(work.layer, route_counts_));

  const GroupLayout& layout = layouts_[work.layer];
  uint32_t first = 0;
  for (uint32_t group = 0; group < layout.group_count(); ++group) {
    uint32_t end = first;
    while (end < work.route_count && layout.group_of(work.host_routes[end].expert) == group) ++end;
    routed_before_[layer_end_[work.layer] - layout.group_count() + group] = end > first;
    if (end > first) ES_RETURN_IF_ERROR(RunGroup(work, group, first, end - first));
    first = end;
  }
  ES_RETURN_IF_ERROR(Settle());
  next_layer_ = work.layer + 1;
  return Status::Ok();
}

Status StreamingExpertsImpl::RunGroup(const ExpertWork& work, uint32_t group, uint32_t first_route,
                                      uint32_t route_count) {
  ES_ASSIGN_OR_RETURN(BankLease lease, Take(work.layer, group));
  ES_RETURN_IF_ERROR(Settle());
  if (options_.check) ES_RETURN_IF_ERROR(CheckRecords(lease, work.layer, group));
  if (options_.schedule == Schedule::kGraphPerExpert) {
    return RunWithOwnGraph(work, lease, group, first_route, route_count);
  }
  const Status submitted = Submit(work, lease, layers_[work.layer].graph, group, first_route, route_count);
  running_ = std::move(lease);
  running_layer_ = work.layer;
  running_group_ = group;
  return submitted;
}

Status StreamingExpertsImpl::RunWithOwnGraph(const ExpertWork& work, const BankLease& lease, uint32_t group,
                                             uint32_t first_route, uint32_t route_count) {
  const auto build = [&] {
    const ComputeSpan span(options_.clock, "build", work.layer, group);
    return options_.build_graph(work.layer);
  };
  ES_ASSIGN_OR_RETURN(const uint32_t graph, build());
  Status status = Submit(work, lease, graph, group, first_route, route_count);
  if (status.ok()) status = device_->Wait(running_ticket_);
  device_->Drop(graph);
  return status;
}

Status StreamingExpertsImpl::CheckRecords(const BankLease& lease, uint32_t layer, uint32_t group) const {
  const GroupLayout& layout = layouts_[layer];
  for (uint32_t r = 0; r < layout.experts_in(group); ++r) {
    if (route_counts_[group * layout.group_size + r] == 0) continue;  // it may not have been read
    const auto record = lease.memory().subspan(r * layout.record_bytes, layout.record_bytes);
    ES_RETURN_IF_ERROR(options_.check(layer, group * layout.group_size + r, record));
  }
  return Status::Ok();
}

// The group's bank: at once if it is ready, beside the one still running; else when nothing is leased any more.
Result<BankLease> StreamingExpertsImpl::Take(uint32_t layer, uint32_t group) {
  const RecordId id{kArena, layer, group};
  ES_ASSIGN_OR_RETURN(std::optional<BankLease> ready, loader_->TryAcquire(id));
  if (ready) return std::move(*ready);
  ES_RETURN_IF_ERROR(Settle());
  const uint64_t begin_ns = NowNs();
  auto lease = loader_->Acquire(id);
  if (trace() != nullptr) trace()->Add({TraceTrack::kWait, "wait", layer, group, 0, begin_ns, NowNs()});
  return lease;
}

// Binds the bank and submits the group's routes: placement, arena and stride are all that differs between groups.
Status StreamingExpertsImpl::Submit(const ExpertWork& work, const BankLease& lease, uint32_t graph, uint32_t group,
                                    uint32_t first_route, uint32_t route_count) {
  const GroupLayout& layout = layouts_[work.layer];
  const uint64_t row = uint64_t{lease.bank()} * options_.expert_count;
  int32_t* placement = placement_.as<int32_t>() + row;
  std::fill_n(placement, options_.expert_count, kNoSlot);
  for (uint32_t r = 0; r < layout.experts_in(group); ++r) {
    placement[group * layout.group_size + r] = static_cast<int32_t>(r);
  }

  ExpertInvocation call;
  call.graph = graph;
  call.tokens = work.tokens;
  call.expert_count = options_.expert_count;
  call.slot_count = layout.experts_in(group);
  call.slot_stride = layout.record_bytes;
  call.x = work.x;
  call.y = work.y;
  call.placement = placement_.ref(row * sizeof(int32_t));
  call.arena = arena_.ref(lease.bank_offset());
  const ComputeSpan span(options_.clock, "experts", work.layer, group);
  for (uint32_t done = 0; done < route_count; done += call.route_count) {
    call.route_count = std::min(options_.max_routes, route_count - done);
    call.routes = work.routes + uint64_t{first_route + done} * sizeof(Route);
    call.same_x = first_route + done > 0 ? 1 : 0;  // route 0 is in the layer's first call
    ES_ASSIGN_OR_RETURN(running_ticket_, device_->Submit(call));
  }
  return Status::Ok();
}

// Waits for the invocation that runs and gives its bank back.
Status StreamingExpertsImpl::Settle() {
  if (running_.empty()) return Status::Ok();
  const ComputeSpan span(options_.clock, "experts", running_layer_, running_group_);
  const Status status = device_->Wait(running_ticket_);
  running_.Drop();
  return status;
}

void StreamingExpertsImpl::EndRequest() {
  (void)Settle();  // after an error of its own, that of a call still running adds nothing
  const bool complete = next_layer_ == layers_.size();
  next_layer_ = 0;
  if (!complete) loader_->Cancel();
  // A refusal is that of the next request, which starts the loader again and keeps what was read.
  if (options_.keep_warm && ReachOf(options_.schedule) == Reach::kTape) (void)StartRequest({});
}

StreamCounts StreamingExpertsImpl::counts() const {
  const LoaderCounts c = loader_->counts();
  return {c.reads,  c.read_bytes, c.wasted_reads, c.wasted_bytes, c.early_hits,
          c.missed, c.stall_ns,   c.io_ns,        c.waiting};
}

// Threads: the read engine's.
void StreamingExpertsImpl::OnRead(const ReadEvent& event) {
  const TapeRecord& record = tape_->records[event.record];
  const char* name = event.ok ? "read" : "failed read";
  trace()->Add({TraceTrack::kRead, name, record.layer, record.group, event.bytes, event.begin_ns, event.end_ns});
  trace()->Add({TraceTrack::kPublish, "publish", record.layer, record.group, 0, event.end_ns, NowNs()});
}

}  // namespace

Result<std::unique_ptr<StreamingExperts>> StreamingExperts::Create(std::shared_ptr<RecordFile> file,
                                                                   std::vector<StreamedLayer> layers,
                                                                   const StreamOptions& options, Device* device) {
  auto stream = std::make_unique<StreamingExpertsImpl>(std::move(layers), options, device);
  ES_RETURN_IF_ERROR(stream->Init(std::move(file)));
  return std::unique_ptr<StreamingExperts>(std::move(stream));
}

}  // namespace estream
