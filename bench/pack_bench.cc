// SPDX-License-Identifier: Apache-2.0
// How fast panels are encoded, and what share of the speed of a mere copy packing reaches.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/macros.h"
#include "base/thread_pool.h"
#include "bench/measure.h"
#include "bench/report.h"
#include "format/tile.h"
#include "pack/direct_file.h"
#include "pack/hash128.h"
#include "pack/pack_output.h"
#include "pack/pack_writer.h"
#include "pack/unit_pipeline.h"
#include "tests/random_blocks.h"
#include "tools/synth/synth_file.h"

namespace estream {
namespace {

constexpr uint64_t kChunkBytes = 8 << 20;
constexpr uint64_t kCols = 2048;
constexpr double kGB = 1e9;

struct Options {
  bool json = false;
  bool quick = false;
  uint32_t threads = UsableProcessors();
  std::string dir;
  std::string model = "olmoe-1b-7b";
  uint32_t layers = 4;
};

// GB/s of source bytes through EncodePanel, FindNonFinite and XXH3, one thread.
ReportTable MeasureEncoding(const Effort& effort) {
  ReportTable table{"Encoding, one thread, GB/s of source", "format", {"encode", "check scales"}, {}};
  std::mt19937 rng(1);
  for (const WeightFormat format : AllWeightFormats()) {
    const uint64_t row_bytes = RowBytes(format, kCols);
    const std::vector<std::byte> rows = RandomBlocks(format, kTileRows, kCols, rng);
    std::vector<std::byte> panel(MakePanelLayout(format, kCols).bytes);
    const double encode = MedianSeconds(
        effort, kThreadClock, [&] { EncodePanel(format, rows.data(), row_bytes, kTileRows, kCols, panel.data()); });
    const double check = MedianSeconds(effort, kThreadClock, [&] {
      for (uint32_t r = 0; r < kTileRows; ++r) ES_CHECK(!FindNonFinite(format, rows.data() + r * row_bytes, kCols));
    });
    const double bytes = static_cast<double>(rows.size());
    table.rows.push_back({Traits(format).name, {bytes / encode / kGB, bytes / check / kGB}});
  }
  return table;
}

double MeasureHashing(const Effort& effort) {
  const AlignedBuffer buffer = AlignedBuffer::Allocate(kChunkBytes).value();
  const double seconds = MedianSeconds(effort, kThreadClock, [&] { ES_CHECK(HashOf(buffer.span()).known()); });
  return static_cast<double>(kChunkBytes) / seconds / kGB;
}

// Writes what `read` gives to `target`, in chunks on as many threads as packing uses.
Status CopyTo(const std::string& target, const RandomAccessFile& from, uint32_t threads) {
  ES_ASSIGN_OR_RETURN(const std::unique_ptr<PartialFile> out, PartialFile::Create(target));
  ES_RETURN_IF_ERROR(out->Reserve(from.size()));
  ThreadPool pool(threads);
  std::vector<AlignedBuffer> buffers(threads);
  for (AlignedBuffer& buffer : buffers) {
    ES_ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(kChunkBytes));
  }
  Status first_error;
  std::mutex mutex;
  pool.RunInOrder(CeilDiv(from.size(), kChunkBytes), [&](uint32_t thread, uint64_t chunk) {
    const uint64_t at = chunk * kChunkBytes;
    const auto bytes = buffers[thread].span().first(std::min(kChunkBytes, from.size() - at));
    Status status = from.ReadAt(at, bytes);
    if (status.ok()) status = out->WriteAt(at, bytes);
    const std::lock_guard lock(mutex);
    if (first_error.ok()) first_error = status;
  });
  ES_RETURN_IF_ERROR(first_error);
  ES_RETURN_IF_ERROR(out->Sync());
  return out->Publish();
}

// Copies and packs a synthetic model in options.dir in turns, so that both see the same machine.
Result<ReportTable> MeasurePacking(const Options& options, Report* report) {
  ES_ASSIGN_OR_RETURN(ModelShape shape, FindModelShape(options.model));
  if (options.layers < shape.layers) {
    ES_ASSIGN_OR_RETURN(shape, WithLayers(shape, options.layers));
  }
  const std::string model = options.dir + "/pack-bench.gguf", copy = model + ".copy", pack = model + ".pack";
  ES_RETURN_IF_ERROR(CopyTo(model, SynthFile(shape, TypeMix::kQ4_0, 1), options.threads));
  ES_ASSIGN_OR_RETURN(const auto source, DirectFile::Open(model));
  std::vector<double> copying, packing;
  Status status;
  for (uint32_t i = 0; i < (options.quick ? 3u : 7u) && status.ok(); ++i) {
    const double start = Now(kWallClock);
    status = CopyTo(copy, *source, PipelineThreads(options.threads));
    copying.push_back(static_cast<double>(source->size()) / (Now(kWallClock) - start) / kGB);
    unlink(copy.c_str());
    PackOptions to;
    to.source = model;
    to.out = pack;
    to.threads = options.threads;
    PackReport done;
    if (status.ok()) status = PackModel(to, &done);
    packing.push_back(static_cast<double>(done.source_bytes) / done.seconds / kGB);
    unlink(pack.c_str());
  }
  unlink(model.c_str());
  ES_RETURN_IF_ERROR(status);
  report->facts.emplace_back("model", fmt::format("{}, {} layers, {:.2f} GB", shape.id, shape.layers,
                                                  static_cast<double>(source->size()) / kGB));
  report->facts.emplace_back("reads", source->direct() ? "direct" : "through the page cache");
  const double copied = Median(copying), packed = Median(packing);
  return ReportTable{"Packing against copying, GB/s of source",
                     "what",
                     {"median", "best", "share of copy, %"},
                     {{"copy", {copied, *std::max_element(copying.begin(), copying.end()), 100}},
                      {"pack", {packed, *std::max_element(packing.begin(), packing.end()), 100 * packed / copied}}}};
}

Status Run(const Options& options) {
  const Effort effort = options.quick ? kQuick : kThorough;
  Report report;
  report.facts.emplace_back("threads", fmt::format("{}", options.threads));
  report.facts.emplace_back("hashing", fmt::format("{:.1f} GB/s a thread", MeasureHashing(effort)));
  report.tables.push_back(MeasureEncoding(effort));
  if (!options.dir.empty()) {
    ES_ASSIGN_OR_RETURN(ReportTable table, MeasurePacking(options, &report));
    report.tables.push_back(std::move(table));
  }
  PrintReport(report, options.json);
  return Status::Ok();
}

}  // namespace
}  // namespace estream

int main(int argc, char** argv) {
  estream::Options options;
  CLI::App app("How fast models are packed");
  app.add_flag("--json", options.json, "Print JSON instead of tables");
  app.add_flag("--quick", options.quick, "Fewer and shorter samples");
  app.add_option("-t,--threads", options.threads, "Processors to use")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--dir", options.dir, "Pack and copy a synthetic model in this folder; needs twice its size");
  app.add_option("--model", options.model, "Its shape, as estream-synth knows it")->capture_default_str();
  app.add_option("--layers", options.layers, "Its first layers only")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return estream::ExitCode("pack_bench", estream::Run(options));
}
