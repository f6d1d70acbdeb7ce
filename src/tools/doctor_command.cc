// SPDX-License-Identifier: Apache-2.0
// `estream doctor`: what this machine offers, and what the engine will do where it offers less.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "base/machine.h"
#include "base/macros.h"
#include "base/thread_pool.h"
#include "format/quote.h"
#include "kernels/target.h"
#include "text/utf8.h"
#include "tools/command_line.h"
#include "tools/probe.h"
#include "tools/report.h"
#include "tools/terminal.h"
#include "tools/verb.h"

namespace estream {
namespace {

struct DoctorFlags {
  std::string path = ".";
  bool json = false;
};

// One line of the report.
struct Finding {
  std::string name;
  bool ok = true;  // false: works, but worse than it could
  std::string text;
  Json values = Json::object();
};

Finding CheckProcessor() {
  const std::string name = ProcessorName();
  const std::vector<std::string> features = ProcessorFeatures();
  const uint32_t usable = UsableProcessors();
  const uint32_t present = std::max(std::thread::hardware_concurrency(), usable);
  return {"processor",
          true,
          fmt::format("{}, {} of {} processors usable; {}", name, usable, present, fmt::join(features, " ")),
          {{"model", ToValidUtf8(name)}, {"usable", usable}, {"present", present}, {"features", features}}};
}

Finding CheckKernels() {
  const std::string target = KernelTargetName();
  const bool portable = target == "EMU128";
  return {"kernels",
          !portable,
          target + (portable ? ": no vector instructions that the kernels know; slow" : ""),
          {{"target", target}}};
}

Finding CheckMemory() {
  const auto memory = ReadSystemMemory();
  if (!memory) return {"memory", false, "the system does not say how much there is", {}};
  return {"memory",
          true,
          fmt::format("{}, {} available", FormatBytes(memory->total_bytes), FormatBytes(memory->available_bytes)),
          {{"total_bytes", memory->total_bytes}, {"available_bytes", memory->available_bytes}}};
}

Finding CheckControlGroup() {
  const auto cgroup = FindCgroupMemory();
  if (!cgroup) return {"control group", true, "no memory limit", {{"limit_bytes", nullptr}}};
  return {"control group",
          true,
          fmt::format("version {}, limit {}, {} used, in {}", cgroup->version, FormatBytes(cgroup->limit_bytes),
                      FormatBytes(cgroup->used_bytes), cgroup->folder),
          {{"version", cgroup->version},
           {"limit_bytes", cgroup->limit_bytes},
           {"used_bytes", cgroup->used_bytes},
           {"folder", ToValidUtf8(cgroup->folder)}}};
}

Finding CheckBudget() {
  const auto budget = ChooseDefaultBudget();
  if (!budget) return {"default budget", false, "unknown; say how much with --memory", {}};
  return {"default budget",
          true,
          fmt::format("{}, {}", FormatBytes(budget->bytes), budget->source),
          {{"bytes", budget->bytes}, {"source", ToValidUtf8(budget->source)}}};
}

Finding CheckLockedMemory() {
  // What registering an arena of a few hundred MiB takes.
  constexpr uint64_t kEnough = uint64_t{1} << 30;
  const auto limit = LockedMemoryLimit();
  if (!limit) return {"locked memory", true, "no limit", {{"limit_bytes", nullptr}}};
  const bool enough = *limit >= kEnough;
  return {"locked memory",
          enough,
          FormatBytes(*limit) + (enough ? "" : "; larger arenas are not registered with io_uring (ulimit -l)"),
          {{"limit_bytes", *limit}}};
}

Finding CheckHugePages() {
  const std::string policy = HugePagePolicy();
  const bool given = policy == "always" || policy == "madvise";
  return {"huge pages",
          given,
          given ? policy + ": weights and arenas get them"
                : (policy.empty() ? "unknown" : policy) +
                      "; experts are read and computed more slowly (/sys/kernel/mm/transparent_hugepage/enabled)",
          {{"policy", ToValidUtf8(policy)}}};
}

Finding CheckAsynchronousReads(const Result<ReadFacts>& reads) {
  if (!reads.ok()) return {"io_uring", false, "not tried: " + reads.status().message(), {{"available", nullptr}}};
  const ReadMode& mode = reads->mode;
  const bool available = mode.engine == "io_uring";
  std::string text = available ? "available" : fmt::format("not available ({}); threads read", mode.engine_reason);
  if (available && !mode.registered_reason.empty()) text += "; buffers not registered: " + mode.registered_reason;
  return {"io_uring",
          available,
          text,
          {{"available", available},
           {"reason", ToValidUtf8(mode.engine_reason)},
           {"registered_buffers", mode.registered_regions != 0},
           {"registered_reason", ToValidUtf8(mode.registered_reason)}}};
}

Finding CheckDirectReads(const std::string& path, const Result<ReadFacts>& reads) {
  const std::string place = fmt::format("in {}", ShownPath(path));
  if (!reads.ok()) return {"direct reads", false, "not tried: " + reads.status().message(), {{"available", nullptr}}};
  const bool direct = reads->mode.direct;
  const std::string text = direct ? fmt::format("{}, aligned to {} bytes", place, reads->alignment)
                                  : fmt::format("not {}: {}; reads go through the page cache, in small pieces", place,
                                                reads->mode.direct_reason);
  return {"direct reads",
          direct,
          text,
          {{"available", direct},
           {"alignment", direct ? Json(reads->alignment) : Json(nullptr)},
           {"reason", ToValidUtf8(reads->mode.direct_reason)}}};
}

Finding CheckFileSystem(const std::string& path) {
  const auto facts = ProbeFileSystem(path);
  if (!facts.ok()) return {"file system", false, facts.status().message(), {}};
  // What lies in memory already gains nothing from streaming, and counts against it.
  const bool in_memory = facts->type == "tmpfs";
  return {"file system",
          !in_memory,
          fmt::format("{}, {} free{}", facts->type, FormatBytes(facts->free_bytes),
                      in_memory ? "; its files are in memory, models there use it twice" : ""),
          {{"type", facts->type}, {"free_bytes", facts->free_bytes}}};
}

Finding CheckDevices() { return {"devices", true, "cpu, reference", {{"names", {"cpu", "reference"}}}}; }

bool IsRegularFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::vector<Finding> CheckAll(const std::string& path) {
  const Result<ReadFacts> reads = IsRegularFile(path) ? ProbeReads(path) : ProbeReadsIn(path);
  // Where nothing can be written, io_uring is tried on a file that is always there.
  const bool elsewhere = !reads.ok();
  return {CheckProcessor(),
          CheckKernels(),
          CheckMemory(),
          CheckControlGroup(),
          CheckBudget(),
          CheckLockedMemory(),
          CheckHugePages(),
          elsewhere ? CheckAsynchronousReads(ProbeReads("/proc/self/exe")) : CheckAsynchronousReads(reads),
          CheckDirectReads(path, reads),
          CheckFileSystem(path),
          CheckDevices()};
}

void PrintJson(const std::string& path, const std::vector<Finding>& checks) {
  Json all = {{"version", ES_VERSION}, {"path", ToValidUtf8(path)}};
  for (const Finding& check : checks) {
    std::string key = check.name;
    std::replace(key.begin(), key.end(), ' ', '_');
    Json entry = {{"ok", check.ok}, {"text", ToValidUtf8(check.text)}};
    entry.update(check.values);
    all[key] = entry;
  }
  Write(JsonLine(all));
}

Outcome CheckArguments(const Positionals& positionals) {
  if (!positionals.empty()) {
    return Outcome::Usage(fmt::format("unexpected argument {}; a folder goes behind --path", Quoted(positionals[0])));
  }
  return Outcome::Ok();
}

Outcome Examine(const DoctorFlags& flags) {
  const std::vector<Finding> checks = CheckAll(flags.path);
  if (flags.json) {
    PrintJson(flags.path, checks);
    return Outcome::Ok();
  }
  const bool colour = UsesColour(stdout);
  for (const Finding& check : checks) {
    const std::string mark = check.ok ? Dim("OK  ", colour) : Bold("note", colour);
    Write(fmt::format("{}  {}  {}\n", mark, Fit(check.name, 14), OneLine(check.text)));
  }
  return Outcome::Ok();
}

}  // namespace

Verb AddDoctorCommand(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("doctor", "Show what this machine offers and what the engine makes of it");
  auto flags = std::make_shared<DoctorFlags>();
  app.add_option("--path", flags->path, "Where models are or will be: a folder, or a file to read; default: here")
      ->type_name("DIR|FILE");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.footer(
      "A note is no error: the engine works, but something is slower or smaller than it could be.\n"
      "Examples:\n"
      "  estream doctor --path ~/models\n"
      "  estream doctor --json | jq .io_uring.available");
  return {&app, CheckArguments, [flags] { return Examine(*flags); }};
}

}  // namespace estream
