// SPDX-License-Identifier: Apache-2.0
// The fused expert operator: its speed on one core by the number of routes, for the expert shapes of the models that
// EStream is made for, and what two threads make of it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/macros.h"
#include "bench/kernel_speed.h"
#include "bench/report.h"
#include "device/device.h"
#include "format/tile.h"
#include "kernels/target.h"
#include "tools/synth/model_shape.h"

namespace estream {
namespace {

constexpr uint32_t kRoutes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr uint32_t kQuickRoutes[] = {1, 8, 64, 256};
constexpr uint32_t kMaxRoutes = 1024;

// Calls take the experts of an arena of at least this size in turn, so that no expert is in a cache when its turn
// comes, as in a pass.
constexpr uint64_t kArenaBytes = uint64_t{128} << 20;

struct Options {
  bool json = false;
  bool quick = false;
};

MatrixSpec PlaceMatrix(uint32_t rows, uint32_t cols, uint64_t* end) {
  const MatrixSpec matrix{WeightFormat::kQ4_0, rows, cols, 0, AlignUp(*end, 128)};
  *end = matrix.offset + TiledBytes(matrix.format, rows, cols);
  return matrix;
}

ExpertSpec MakeSpec(uint32_t hidden, uint32_t ffn) {
  ExpertSpec spec;
  uint64_t end = 0;
  spec.hidden = hidden;
  spec.ffn = ffn;
  spec.gate = PlaceMatrix(ffn, hidden, &end);
  spec.up = PlaceMatrix(ffn, hidden, &end);
  spec.down = PlaceMatrix(hidden, ffn, &end);
  spec.record_bytes = AlignUp(end, 4096);
  return spec;
}

// Experts of one shape on a device, and what calls of them bind.
class ExpertRig {
 public:
  static Result<std::unique_ptr<ExpertRig>> Create(Device* device, const ExpertSpec& spec) {
    std::unique_ptr<ExpertRig> rig(new ExpertRig(device, spec));
    const uint64_t rows_bytes = uint64_t{kMaxRoutes} * spec.hidden * sizeof(float);
    const auto experts = static_cast<uint32_t>(CeilDiv(kArenaBytes, spec.record_bytes));
    ES_ASSIGN_OR_RETURN(rig->x_, device->Allocate(rows_bytes, "x"));
    ES_ASSIGN_OR_RETURN(rig->y_, device->Allocate(rows_bytes, "y"));
    ES_ASSIGN_OR_RETURN(rig->routes_, device->Allocate(kMaxRoutes * sizeof(Route), "routes"));
    ES_ASSIGN_OR_RETURN(rig->placement_, device->Allocate(experts * sizeof(int32_t), "placement"));
    ES_ASSIGN_OR_RETURN(rig->arena_, device->Allocate(experts * spec.record_bytes, "arena"));
    ES_ASSIGN_OR_RETURN(rig->call_.graph, device->Build(spec, Capacity{kMaxRoutes, kMaxRoutes}));
    rig->Fill(experts);
    return rig;
  }

  ~ExpertRig() {
    for (const DeviceBuffer* b : {&x_, &y_, &routes_, &placement_, &arena_}) {
      if (b->id != 0) device_->Free(*b);
    }
  }

  // `count` tokens through the next expert.
  Status Run(uint32_t count) {
    next_ = (next_ + 1) % call_.expert_count;
    for (uint32_t i = 0; i < count; ++i) routes_.as<Route>()[i] = {next_, i, 1.0f};
    call_.tokens = call_.route_count = count;
    ES_ASSIGN_OR_RETURN(const Ticket ticket, device_->Submit(call_));
    return device_->Wait(ticket);
  }

 private:
  ExpertRig(Device* device, const ExpertSpec& spec) : device_(device), spec_(spec) {}

  // Weight bytes below 0x38 make small positive numbers as scales, so that sums stay finite.
  void Fill(uint32_t experts) {
    std::mt19937 rng(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::generate_n(x_.as<float>(), x_.bytes / sizeof(float), [&] { return uniform(rng); });
    std::generate_n(arena_.host, spec_.record_bytes, [&] { return static_cast<std::byte>(rng() % 0x38); });
    for (uint32_t e = 0; e < experts; ++e) {
      placement_.as<int32_t>()[e] = static_cast<int32_t>(e);
      if (e > 0) std::memcpy(arena_.host + e * spec_.record_bytes, arena_.host, spec_.record_bytes);
    }
    call_.expert_count = call_.slot_count = experts;
    call_.slot_stride = spec_.record_bytes;
    call_.x = x_.ref();
    call_.y = y_.ref();
    call_.routes = routes_.ref();
    call_.placement = placement_.ref();
    call_.arena = arena_.ref();
  }

  Device* const device_;
  const ExpertSpec spec_;
  DeviceBuffer x_, y_, routes_, placement_, arena_;
  ExpertInvocation call_;
  uint32_t next_ = 0;
};

// GMAC/s and % of `peak` of every model's shape by routes.
Result<ReportTable> MeasureExperts(const Options& options, const std::string& activations, double peak) {
  DeviceOptions device_options;
  device_options.threads = 1;
  device_options.activations = activations;
  ES_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, MakeDevice(device_options));
  const std::span<const uint32_t> counts = options.quick ? std::span<const uint32_t>(kQuickRoutes) : kRoutes;
  ReportTable table{
      fmt::format("Experts in Q4_0, {} activations, GMAC/s and % of peak, 1 core", activations), "routes", {}, {}};
  for (const uint32_t count : counts) table.rows.push_back({fmt::format("{}", count), {}});
  for (const ModelShape& shape : AllModelShapes()) {
    ES_ASSIGN_OR_RETURN(const auto rig, ExpertRig::Create(device.get(), MakeSpec(shape.hidden, shape.ffn)));
    table.columns.push_back(shape.id);
    table.columns.push_back("%");
    for (size_t i = 0; i < counts.size(); ++i) {
      Status status;
      const double seconds = MedianSeconds(options.quick ? kQuick : kThorough, kThreadClock, [&] {
        if (status.ok()) status = rig->Run(counts[i]);
      });
      ES_RETURN_IF_ERROR(status);
      const double speed = 3e-9 * counts[i] * shape.hidden * shape.ffn / seconds;
      table.rows[i].values.push_back(speed);
      table.rows[i].values.push_back(100 * speed / peak);
    }
  }
  return table;
}

// The speed of a device of two threads in % of that of two devices of one thread each side by side, which never wait
// for each other: wall time of as many calls, median of repeats in turns.
Result<double> TwoThreadsAgainstTwoCopies(const Effort& effort, ExpertRig& both, std::span<ExpertRig* const> copies,
                                          ThreadPool& pool, uint32_t routes) {
  Status status[2];
  const auto run = [&](ExpertRig& rig, uint64_t calls, Status& result) {
    for (uint64_t i = 0; i < calls && result.ok(); ++i) result = rig.Run(routes);
  };
  const double once = MedianSeconds(kQuick, kWallClock, [&] { run(both, 1, status[0]); });
  const auto calls = std::max<uint64_t>(1, static_cast<uint64_t>(effort.sample_seconds / once));
  std::vector<double> ratios;
  for (uint32_t i = 0; i < effort.repeats; ++i) {
    const double start = Now(kWallClock);
    run(both, 2 * calls, status[0]);
    const double middle = Now(kWallClock);
    pool.Run(2, [&](uint32_t, uint64_t copy) { run(*copies[copy], calls, status[copy]); });
    ratios.push_back(100 * (Now(kWallClock) - middle) / (middle - start));
  }
  for (const Status& s : status) ES_RETURN_IF_ERROR(s);
  return Median(std::move(ratios));
}

// How long two threads take for a loop without work, in ns: some ways of a cache line from one core to the other. When
// it grows, everything that threads share gets slower. With more than two processors the cores of this pool need not be
// those of the device.
double EmptyRound(const Effort& effort, ThreadPool& pool) {
  constexpr uint32_t kRounds = 1000;
  return 1e9 / kRounds * MedianSeconds(effort, kWallClock, [&] {
           for (uint32_t i = 0; i < kRounds; ++i) pool.Run(2, [](uint32_t, uint64_t) {});
         });
}

// `rounds` gets what an empty loop takes after each shape.
Result<ReportTable> MeasureThreads(const Options& options, ReportTable* rounds) {
  const Effort& effort = options.quick ? kQuick : kThorough;
  std::unique_ptr<Device> devices[3];
  for (uint32_t i = 0; i < 3; ++i) {
    DeviceOptions device_options;
    device_options.threads = i == 0 ? 2 : 1;
    ES_ASSIGN_OR_RETURN(devices[i], MakeDevice(device_options));
  }
  ThreadPool pool(2);
  ReportTable table{"Speed of two threads, % of two copies on one thread each, q8 activations", "routes", {}, {}};
  for (const uint32_t count : kQuickRoutes) table.rows.push_back({fmt::format("{}", count), {}});
  for (const ModelShape& shape : AllModelShapes()) {
    std::unique_ptr<ExpertRig> rigs[3];
    for (uint32_t i = 0; i < 3; ++i) {
      ES_ASSIGN_OR_RETURN(rigs[i], ExpertRig::Create(devices[i].get(), MakeSpec(shape.hidden, shape.ffn)));
    }
    ExpertRig* const copies[] = {rigs[1].get(), rigs[2].get()};
    table.columns.push_back(shape.id);
    for (ReportTable::Row& row : table.rows) {
      const auto routes = kQuickRoutes[&row - table.rows.data()];
      ES_ASSIGN_OR_RETURN(const double share, TwoThreadsAgainstTwoCopies(effort, *rigs[0], copies, pool, routes));
      row.values.push_back(share);
    }
    rounds->columns.push_back(shape.id);
    rounds->rows[0].values.push_back(EmptyRound(effort, pool));
  }
  return table;
}

Status Run(const Options& options) {
  ThreadPool one(1);
  Report report;
  report.facts.emplace_back("target", KernelTargetName());
  report.facts.emplace_back("samples", fmt::format("median of {}", (options.quick ? kQuick : kThorough).repeats));
  report.tables.push_back(MeasurePeaks(options.quick ? kQuick : kThorough, one));
  const std::vector<ReportTable::Row> peaks = report.tables.front().rows;
  const double fma = peaks[0].values[0], pairs = peaks[1].values[0], quads = peaks[2].values[0];
  ES_ASSIGN_OR_RETURN(ReportTable q8, MeasureExperts(options, "q8", std::isnan(quads) ? pairs : quads));
  report.tables.push_back(std::move(q8));
  ES_ASSIGN_OR_RETURN(ReportTable f32, MeasureExperts(options, "f32", fma));
  report.tables.push_back(std::move(f32));
  if (UsableProcessors() > 1) {
    ReportTable rounds{"An empty loop on two threads, after the shape was measured, ns", "", {}, {{"loop", {}}}};
    ES_ASSIGN_OR_RETURN(ReportTable threads, MeasureThreads(options, &rounds));
    report.tables.push_back(std::move(threads));
    report.tables.push_back(std::move(rounds));
  }
  PrintReport(report, options.json);
  return Status::Ok();
}

}  // namespace
}  // namespace estream

int main(int argc, char** argv) {
  estream::Options options;
  CLI::App app("How fast experts are computed, and what share of the core's peak that is");
  app.add_flag("--json", options.json, "Print JSON instead of tables");
  app.add_flag("--quick", options.quick, "Fewer routes, fewer and shorter samples");
  CLI11_PARSE(app, argc, argv);
  return estream::ExitCode("expert_bench", estream::Run(options));
}
