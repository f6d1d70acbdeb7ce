// SPDX-License-Identifier: Apache-2.0
// What this machine is and how much of it this process may use.
//
// `root` is put before every path that is read ("/proc/meminfo", "/sys/fs/cgroup/..."), so that a folder of files can
// stand for a machine. Files that are missing or say something unexpected count as saying nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace estream {

// The processor's name as the system gives it, or "unknown".
std::string ProcessorName(const std::string& root = "");

// Those of its features that matter to the kernels ("avx2", "fma", "avx512_vnni", "asimddp"), as the system spells
// them.
std::vector<std::string> ProcessorFeatures(const std::string& root = "");

struct SystemMemory {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // MemAvailable: without swapping, what a new program could get
};
std::optional<SystemMemory> ReadSystemMemory(const std::string& root = "");

// A control group's memory limit.
struct CgroupMemory {
  int version = 0;     // 1 or 2
  std::string folder;  // without `root`
  uint64_t limit_bytes = 0;
  uint64_t used_bytes = 0;  // page cache included; 0 when not said
};

// The tightest limit of the control groups this process is in, their parents included; nothing when there is none.
std::optional<CgroupMemory> FindCgroupMemory(const std::string& root = "");

// How much memory to use when the user does not say, and why that much.
struct DefaultBudget {
  uint64_t bytes = 0;
  std::string source;  // "the limit of control group /sys/fs/cgroup/app.slice"
};

// The control group's limit when it is below what the system has available; else available memory less a sixteenth of
// all memory. Nothing where the system says neither.
std::optional<DefaultBudget> ChooseDefaultBudget(const std::string& root = "");

// The memory this process has resident now, in bytes (VmRSS); 0 where the system does not say.
uint64_t ResidentBytes(const std::string& root = "");

// The most memory this process has had resident, in bytes (VmHWM); 0 where the system does not say.
uint64_t PeakResidentBytes(const std::string& root = "");

// Who gets transparent huge pages: "always", "madvise" (who asks, as large buffers do) or "never"; empty where the
// system does not say.
std::string HugePagePolicy(const std::string& root = "");

// What this process may lock in memory (RLIMIT_MEMLOCK); nothing for no limit.
std::optional<uint64_t> LockedMemoryLimit();

}  // namespace estream
