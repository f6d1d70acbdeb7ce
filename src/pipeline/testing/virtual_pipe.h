// SPDX-License-Identifier: Apache-2.0
// The real loader and executor on a virtual clock: reads and calls take the times that a script says, and nothing else
// takes any.
//
// Time is moved by the request thread while it computes, and, while it waits for a group, by a driver thread that ends
// the next read. Whoever moves it holds step_mutex_, so it stands still while a completed read starts others.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/mutex.h"
#include "pipeline/streaming_experts.h"
#include "pipeline/testing/host_device.h"
#include "pipeline/testing/pipe_script.h"
#include "residency/testing/pattern.h"

namespace estream::testing {

class VirtualPipe {
 public:
  // `max_routes` is that of the graphs: a group of more is several calls.
  VirtualPipe(const PipeSetup& setup, uint32_t max_routes, bool keep_warm) : setup_(setup), device_(this) {
    StreamOptions options;
    options.schedule = setup.schedule;
    options.shape = setup.shape;
    options.expert_count = setup.experts;
    options.slot_stride = kPageBytes;
    options.max_routes = max_routes;
    options.build_graph = [](uint32_t layer) { return Result<uint32_t>(layer); };
    options.sparse_reads = setup.sparse_reads;
    options.keep_warm = keep_warm;
    options.make_engine = [this](auto, auto, const ReadEngineOptions& engine) {
      return Result<std::unique_ptr<ReadEngine>>(std::make_unique<Engine>(this, engine.depth));
    };
    options.now_ns = [this] { return now_.load(); };
    options.clock = &compute_;
    std::vector<StreamedLayer> layers;
    for (uint32_t l = 0; l < setup.layers; ++l) layers.push_back({l, FileOffset(l, 0), kPageBytes});
    stream_ = StreamingExperts::Create(nullptr, std::move(layers), options, &device_).value();
    missing_.resize(size_t{setup.layers} * setup.groups());
    routes_ = device_.Allocate(kMostRoutes * sizeof(Route), "routes").value();
    driver_ = std::thread([this] { Drive(); });
  }
  ~VirtualPipe() {
    Drain();
    {
      MutexLock lock(mutex_);
      closing_ = true;
      changed_.NotifyAll();
    }
    driver_.join();
    stream_.reset();
    device_.Free(routes_);
  }

  // One request; what it did until its end. `filled`: so many groups are in banks already. Pre: nothing is being read.
  ModelOutcome Run(const PipeRequest& request, uint32_t filled = 0) {
    request_ = &request;
    {
      MutexLock lock(mutex_);
      std::fill(missing_.begin(), missing_.end(), kUnread);
      std::fill_n(missing_.begin(), filled, 0u);
    }
    const StreamCounts before = stream_->counts();
    const uint64_t begin = now_;
    computed_ns_ = 0;
    const auto routes_of = [&](const ModelLayer& layer) { return layer.early ? UINT64_MAX : setup_.experts / 2 - 1; };
    EXPECT_TRUE(
        stream_->StartRequest({routes_of(request.times.layers.front()), routes_of(request.times.layers.back())}).ok());
    for (uint32_t l = 0; l < setup_.layers; ++l) RunLayer(l);
    Compute(request.times.tail_ns);
    const StreamCounts after = stream_->counts();
    const uint64_t end = now_;
    stream_->EndRequest();
    return {.total_ns = end - begin,
            .exec_ns = computed_ns_,
            .io_ns = after.io_ns - before.io_ns,
            .stall_ns = after.stall_ns - before.stall_ns,
            .reads = after.reads - before.reads,
            .wasted_reads = after.wasted_reads - before.wasted_reads};
  }

  // Lets time pass until nothing is being read.
  void Drain() {
    MutexLock step(step_mutex_);
    while (!Pending().empty()) EndNextRead();
  }

 private:
  static constexpr size_t kMostRoutes = 400;  // of a layer: up to 100 groups with 4 routes each
  static constexpr uint32_t kUnread = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Read {
    uint64_t due = 0;
    uint64_t number = 0;
    ReadRequest request;
  };

  class Engine final : public ReadEngine {
   public:
    Engine(VirtualPipe* pipe, uint32_t depth) : pipe_(pipe), depth_(depth) {}
    Status Submit(const ReadRequest& request) override {
      ES_RETURN_IF_ERROR(CheckReadRequest(request, 1));
      pipe_->StartRead(request);
      return Status::Ok();
    }
    void Close() override { EXPECT_TRUE(pipe_->Pending().empty()); }
    uint32_t depth() const override { return depth_; }
    ReadMode mode() const override { return {.engine = "virtual", .direct = true}; }

   private:
    VirtualPipe* const pipe_;
    const uint32_t depth_;
  };

  // Runs a call inside Submit, as the CPU does.
  class SyncDevice final : public HostDevice {
   public:
    explicit SyncDevice(VirtualPipe* pipe) : pipe_(pipe) {}
    using HostDevice::Submit;
    Result<Ticket> Submit(const ExpertInvocation& call) override {
      const Route* routes = At<Route>(call.routes);
      for (uint32_t i = 0; i < call.route_count; ++i) {
        const uint64_t offset = pipe_->FileOffset(call.graph, routes[i].expert);
        const std::byte* record = RecordOf(call, routes[i].expert);
        EXPECT_TRUE(record != nullptr && HasPattern({record, 8}, offset)) << "expert " << routes[i].expert;
      }
      pipe_->RunCall(call.graph, routes[0].expert / pipe_->setup_.shape.group_size, call.route_count);
      return ++last_ticket_;
    }
    Status Wait(Ticket) override { return Status::Ok(); }

   private:
    VirtualPipe* const pipe_;
    Ticket last_ticket_ = 0;
  };

  uint64_t FileOffset(uint32_t layer, uint32_t position) const {
    return (uint64_t{layer} * setup_.experts + position) * kPageBytes;
  }
  // Counts groups along the tape.
  uint32_t GroupAt(uint64_t file_offset) const {
    const uint64_t record = file_offset / kPageBytes;
    const uint64_t layer = record / setup_.experts;
    return static_cast<uint32_t>(layer * setup_.groups() + record % setup_.experts / setup_.shape.group_size);
  }

  bool IsWhole(const ReadRequest& request) const {
    const uint32_t group = GroupAt(request.offset) % setup_.groups();
    const uint32_t size = setup_.shape.group_size;
    return request.bytes == std::min(size, setup_.experts - group * size) * kPageBytes;
  }

  // ---- the request thread ----

  void RunLayer(uint32_t layer) {
    stream_->Begin(layer);
    Compute(request_->times.layers[layer].block_ns);
    const std::vector<Route>& routes = request_->routes[layer];
    ASSERT_LE(routes.size(), kMostRoutes);
    std::copy(routes.begin(), routes.end(), routes_.as<Route>());
    AwaitRoutedFrom(layer, 0);
    ExpertWork work;
    work.layer = layer;
    work.tokens = 1;
    work.route_count = static_cast<uint32_t>(routes.size());
    work.host_routes = routes.data();
    work.routes = routes_.ref();
    const Status status = stream_->Run(work);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(awaited_, kNone) << "a group did not run";
  }

  // Calls of a group share its time by their routes.
  void RunCall(uint32_t layer, uint32_t group, uint32_t route_count) {
    EXPECT_EQ(awaited_, layer * setup_.groups() + group) << "groups run in order";
    const auto of_group =
        std::count_if(request_->routes[layer].begin(), request_->routes[layer].end(),
                      [&](const Route& route) { return route.expert / setup_.shape.group_size == group; });
    const uint64_t all = static_cast<uint64_t>(of_group);
    const uint64_t exec_ns = request_->times.layers[layer].groups[group].exec_ns;
    const uint64_t before = exec_ns * routes_run_ / all;
    routes_run_ += route_count;
    const uint64_t length = exec_ns * routes_run_ / all - before;
    if (routes_run_ == all) {
      routes_run_ = 0;
      AwaitRoutedFrom(layer, group + 1);
    }
    Compute(length);
  }

  void AwaitRoutedFrom(uint32_t layer, uint32_t group) {
    const std::vector<ModelGroup>& groups = request_->times.layers[layer].groups;
    while (group < groups.size() && !groups[group].routed) ++group;
    MutexLock lock(mutex_);
    awaited_ = group < groups.size() ? layer * setup_.groups() + group : kNone;
    changed_.NotifyAll();
  }

  // Time passes while the device works; reads that fall due on the way end.
  void Compute(uint64_t length) {
    MutexLock step(step_mutex_);
    computed_ns_ += length;
    const uint64_t end = now_ + length;
    while (NextDue() <= end) EndNextRead();
    now_ = end;
  }

  // ---- reads ----

  void StartRead(const ReadRequest& request) ES_EXCLUDES(mutex_) {
    FillPattern({request.dest, 8}, ~request.offset);  // whoever looks too early sees it
    const uint32_t group = GroupAt(request.offset);
    const ModelGroup& times = request_->times.layers[group / setup_.groups()].groups[group % setup_.groups()];
    const bool whole = IsWhole(request);
    const uint64_t length = whole ? times.read_ns : request_->run_ns.at(request.offset / kPageBytes);
    MutexLock lock(mutex_);
    if (missing_[group] == kUnread) missing_[group] = whole ? 1 : static_cast<uint32_t>(times.run_ns.size());
    reads_.push_back({now_ + length, ++last_read_, request});
    changed_.NotifyAll();
  }

  std::vector<Read> Pending() ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return reads_;
  }
  uint64_t NextDue() ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return reads_.empty() ? UINT64_MAX : Next()->due;
  }
  std::vector<Read>::iterator Next() ES_REQUIRES(mutex_) {
    return std::min_element(reads_.begin(), reads_.end(), [](const Read& a, const Read& b) {
      return a.due != b.due ? a.due < b.due : a.number < b.number;
    });
  }

  void EndNextRead() ES_REQUIRES(step_mutex_) ES_EXCLUDES(mutex_) {
    ReadRequest request;
    {
      MutexLock lock(mutex_);
      const auto read = Next();
      now_ = std::max(now_.load(), read->due);
      request = read->request;
      reads_.erase(read);
      --missing_[GroupAt(request.offset)];
    }
    for (uint64_t at = 0; at < request.bytes; at += kPageBytes)
      FillPattern({request.dest + at, 8}, request.offset + at);
    request.sink->OnRead(request.tag, Status::Ok());
  }

  // ---- the driver ----

  // The group that runs next is not there and can only come by waiting.
  bool MayWait() const ES_REQUIRES(mutex_) { return awaited_ != kNone && missing_[awaited_] > 0 && !reads_.empty(); }
  bool MayWaitNow() ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return MayWait();
  }

  void Drive() {
    while (true) {
      {
        MutexLock lock(mutex_);
        while (!closing_ && !MayWait()) changed_.Wait(mutex_);
        if (closing_) return;
      }
      {
        MutexLock step(step_mutex_);
        // A waiter whose group is there counts as waiting until it wakes, but then that group may not be waited for.
        if (MayWaitNow() && stream_->counts().waiting > 0) EndNextRead();
      }
      std::this_thread::yield();
    }
  }

  // Constant after construction.
  const PipeSetup setup_;
  SyncDevice device_;
  ComputeClock compute_;
  std::unique_ptr<StreamingExperts> stream_;
  DeviceBuffer routes_;

  // Of the request thread.
  const PipeRequest* request_ = nullptr;
  uint64_t computed_ns_ = 0;
  uint64_t routes_run_ = 0;  // of the group under way

  Mutex step_mutex_;  // taken before the loader's mutex and before mutex_
  std::atomic<uint64_t> now_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Read> reads_ ES_GUARDED_BY(mutex_);
  uint64_t last_read_ ES_GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> missing_ ES_GUARDED_BY(mutex_);  // [groups along the tape] reads of this request to end
  std::atomic<uint32_t> awaited_ = kNone;                // the group that runs next in the layer that runs
  bool closing_ ES_GUARDED_BY(mutex_) = false;
  std::thread driver_;
};

}  // namespace estream::testing
