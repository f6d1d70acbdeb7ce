// SPDX-License-Identifier: Apache-2.0
// Small text files of /proc and /sys, read whole, line by line.
#include "base/machine.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace estream {
namespace {

// Lines of a file, or none.
std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> Words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

// The number that `text` begins with.
std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// What follows "key:" on the first line that begins with it, without blanks around it.
std::optional<std::string> Field(const std::vector<std::string>& lines, std::string_view key) {
  for (const std::string& line : lines) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find_first_not_of(" \t", key.size());
    if (colon == std::string::npos || line[colon] != ':') continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return std::nullopt;
}

// A field in kB, as bytes.
std::optional<uint64_t> KilobyteField(const std::vector<std::string>& lines, std::string_view key) {
  const auto text = Field(lines, key);
  const auto value = text ? Number(*text) : std::nullopt;
  if (!value || *value > UINT64_MAX / 1024) return std::nullopt;
  return *value * 1024;
}

constexpr std::array kKernelFeatures = {
    // x86
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "amx_int8",
    // Arm
    "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2"};

// A mounted hierarchy of control groups that can limit memory.
struct Hierarchy {
  int version;
  std::string mount;  // where it is mounted
  std::string root;   // which of its groups the mount shows as its top
};

// Mount points write blanks and backslashes as octal escapes.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool HasOption(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    const size_t comma = options.find(',');
    if (options.substr(0, comma) == wanted) return true;
    options.remove_prefix(comma == std::string_view::npos ? options.size() : comma + 1);
  }
  return false;
}

// A line of mountinfo: id, parent, device, root, mount point, options, any number of fields, "-", type, source,
// options.
std::vector<Hierarchy> MemoryHierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  for (const std::string& line : Lines(root + "/proc/self/mountinfo")) {
    const std::vector<std::string> words = Words(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4) continue;
    if (dash[1] == "cgroup2") {
      found.push_back({2, Unescaped(words[4]), Unescaped(words[3])});
    } else if (dash[1] == "cgroup" && HasOption(dash[3], "memory")) {
      found.push_back({1, Unescaped(words[4]), Unescaped(words[3])});
    }
  }
  return found;
}

// The group of this process in such a hierarchy. Lines are "0::/path" for version 2 and "4:cpu,memory:/path" for 1.
std::optional<std::string> GroupOf(const std::string& root, int version) {
  for (const std::string& line : Lines(root + "/proc/self/cgroup")) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (version == 2 ? line.starts_with("0::") : HasOption(controllers, "memory")) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The part of `group` below what the mount shows. A container may see the path of a group that lies outside its mount;
// all it can read then is the top.
std::string BelowMount(const std::string& group, const std::string& mount_root) {
  if (group.find("/..") != std::string::npos) return "";
  if (mount_root == "/") return group == "/" ? "" : group;
  if (!group.starts_with(mount_root)) return "";
  return group.substr(mount_root.size());
}

std::optional<uint64_t> NumberFile(const std::string& path) {
  const std::vector<std::string> lines = Lines(path);
  return lines.empty() ? std::nullopt : Number(lines[0]);
}

// Version 1 says "no limit" with the largest number of pages there is.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

// The tightest limit from `hierarchy`'s group of this process up to its mount point.
std::optional<CgroupMemory> TightestOf(const std::string& root, const Hierarchy& hierarchy) {
  const auto group = GroupOf(root, hierarchy.version);
  if (!group) return std::nullopt;
  const bool v2 = hierarchy.version == 2;
  std::optional<CgroupMemory> tightest;
  for (std::string below = BelowMount(*group, hierarchy.root);;) {
    const std::string folder = hierarchy.mount + below;
    const auto limit = NumberFile(root + folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit && *limit < kNoLimit && (!tightest || *limit < tightest->limit_bytes)) {
      const auto used = NumberFile(root + folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
      tightest = {hierarchy.version, folder, *limit, used.value_or(0)};
    }
    if (below.empty()) return tightest;
    below.erase(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
  }
}

}  // namespace

std::string ProcessorName(const std::string& root) {
  const std::vector<std::string> lines = Lines(root + "/proc/cpuinfo");
  for (const char* key : {"model name", "Hardware", "Processor"}) {  // x86; Arm, which often has neither
    const auto name = Field(lines, key);
    if (name && !name->empty()) return *name;
  }
  return "unknown";
}

std::vector<std::string> ProcessorFeatures(const std::string& root) {
  const std::vector<std::string> lines = Lines(root + "/proc/cpuinfo");
  auto all = Field(lines, "flags");
  if (!all) all = Field(lines, "Features");
  std::vector<std::string> found;
  for (std::string& word : Words(all.value_or(""))) {
    const auto known = std::find(kKernelFeatures.begin(), kKernelFeatures.end(), word);
    if (known != kKernelFeatures.end()) found.push_back(std::move(word));
  }
  return found;
}

std::optional<SystemMemory> ReadSystemMemory(const std::string& root) {
  const std::vector<std::string> lines = Lines(root + "/proc/meminfo");
  const auto total = KilobyteField(lines, "MemTotal"), available = KilobyteField(lines, "MemAvailable");
  if (!total || !available) return std::nullopt;
  return SystemMemory{*total, *available};
}

std::optional<CgroupMemory> FindCgroupMemory(const std::string& root) {
  std::optional<CgroupMemory> tightest;
  for (const Hierarchy& hierarchy : MemoryHierarchies(root)) {
    const auto found = TightestOf(root, hierarchy);
    if (found && (!tightest || found->limit_bytes < tightest->limit_bytes)) tightest = found;
  }
  return tightest;
}

std::optional<DefaultBudget> ChooseDefaultBudget(const std::string& root) {
  const auto cgroup = FindCgroupMemory(root);
  const auto memory = ReadSystemMemory(root);
  if (cgroup && (!memory || cgroup->limit_bytes <= memory->available_bytes)) {
    return DefaultBudget{cgroup->limit_bytes, fmt::format("the limit of control group {}", cgroup->folder)};
  }
  if (!memory) return std::nullopt;
  const uint64_t margin = std::min(memory->total_bytes / 16, memory->available_bytes / 2);
  return DefaultBudget{memory->available_bytes - margin, "available memory less a sixteenth of all"};
}

uint64_t ResidentBytes(const std::string& root) {
  return KilobyteField(Lines(root + "/proc/self/status"), "VmRSS").value_or(0);
}

uint64_t PeakResidentBytes(const std::string& root) {
  return KilobyteField(Lines(root + "/proc/self/status"), "VmHWM").value_or(0);
}

// The file lists all choices, the one in force in brackets.
std::string HugePagePolicy(const std::string& root) {
  for (const std::string& line : Lines(root + "/sys/kernel/mm/transparent_hugepage/enabled")) {
    const size_t open = line.find('['), close = line.find(']');
    if (open < close && close != std::string::npos) return line.substr(open + 1, close - open - 1);
  }
  return "";
}

std::optional<uint64_t> LockedMemoryLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace estream
