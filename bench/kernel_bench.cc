// SPDX-License-Identifier: Apache-2.0
// What this machine can do (arithmetic, memory, storage), and what share of it the kernels reach.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "base/macros.h"
#include "base/thread_pool.h"
#include "bench/attention_speed.h"
#include "bench/kernel_speed.h"
#include "bench/memory_speed.h"
#include "bench/report.h"
#include "bench/storage_speed.h"
#include "kernels/target.h"

namespace estream {
namespace {

struct Options {
  bool json = false;
  bool quick = false;
  uint32_t threads = UsableProcessors();
  std::string file;
  std::string dir;
};

// Measures storage on the file the user named, or on one written and removed here; nothing when neither was asked for.
Status AddStorage(const Options& options, const Effort& effort, Report* report) {
  if (options.file.empty() && options.dir.empty()) return Status::Ok();
  std::string path = options.file;
  const bool probe = path.empty();
  if (probe) {
    ES_ASSIGN_OR_RETURN(path, WriteStorageProbe(options.dir, uint64_t{options.quick ? 256u : 1024u} << 20));
  }
  Result<StorageSpeed> speed = MeasureStorage(path, effort);
  if (probe) unlink(path.c_str());
  ES_RETURN_IF_ERROR(speed.status());
  report->facts.emplace_back("storage", fmt::format("{}, {}", probe ? options.dir : path, speed->mode));
  report->tables.push_back(std::move(speed->table));
  return Status::Ok();
}

Status Run(const Options& options) {
  const Effort effort = options.quick ? kQuick : kThorough;
  ThreadPool pool(options.threads);
  Report report;
  report.facts.emplace_back("target", KernelTargetName());
  report.facts.emplace_back("threads", fmt::format("{}", options.threads));
  report.facts.emplace_back("samples", fmt::format("median of {}", effort.repeats));
  report.tables.push_back(MeasurePeaks(effort, pool));
  const std::vector<ReportTable::Row> peaks = report.tables.front().rows;
  const double fma_peak = peaks[0].values[0];
  const double int8_peak = std::isnan(peaks[2].values[0]) ? peaks[1].values[0] : peaks[2].values[0];
  report.tables.push_back(MeasureDecoding(effort));
  report.tables.push_back(MeasureMatMul(effort, fma_peak));
  report.tables.push_back(MeasureMatMulQ8(effort, int8_peak));
  report.tables.push_back(MeasureQuantization(effort));
  report.tables.push_back(MeasureAttention(effort, fma_peak));
  ES_ASSIGN_OR_RETURN(ReportTable memory, MeasureMemory(effort, pool));
  report.tables.push_back(std::move(memory));
  ES_RETURN_IF_ERROR(AddStorage(options, effort, &report));
  PrintReport(report, options.json);
  return Status::Ok();
}

}  // namespace
}  // namespace estream

int main(int argc, char** argv) {
  estream::Options options;
  CLI::App app("What this machine can do, and what share of it the kernels reach");
  app.add_flag("--json", options.json, "Print JSON instead of tables");
  app.add_flag("--quick", options.quick, "Fewer and shorter samples");
  app.add_option("-t,--threads", options.threads, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--file", options.file, "Measure storage on this file, which is only read");
  app.add_option("--dir", options.dir, "Measure storage on a file of 1 GiB (--quick: 256 MiB) made in this folder");
  CLI11_PARSE(app, argc, argv);
  return estream::ExitCode("kernel_bench", estream::Run(options));
}
