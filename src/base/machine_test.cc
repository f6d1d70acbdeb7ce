// SPDX-License-Identifier: Apache-2.0
// Machines made of files: both versions of control groups, nested, namespaced, unlimited, absent, damaged.
#include "base/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/test_files.h"

namespace estream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

// A folder that stands for a machine.
class FakeMachine {
 public:
  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    WriteBinary(root() + path, text);
  }
  std::string root() const { return dir_.path(); }

 private:
  TempDir dir_;
};

const char kMountV1[] = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
const char kMountV2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(Machine, AnEmptyMachineSaysNothing) {
  const FakeMachine machine;
  EXPECT_EQ(ProcessorName(machine.root()), "unknown");
  EXPECT_TRUE(ProcessorFeatures(machine.root()).empty());
  EXPECT_FALSE(ReadSystemMemory(machine.root()).has_value());
  EXPECT_FALSE(FindCgroupMemory(machine.root()).has_value());
  EXPECT_FALSE(ChooseDefaultBudget(machine.root()).has_value());
  EXPECT_EQ(PeakResidentBytes(machine.root()), 0u);
}

TEST(Machine, ThisOneHasMemoryAndAPeak) {
  const auto memory = ReadSystemMemory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_GE(memory->total_bytes, memory->available_bytes);
  const uint64_t resident = ResidentBytes();
  EXPECT_GT(resident, 0u);
  EXPECT_GE(PeakResidentBytes() + (1 << 20), resident) << "the system's counters lag by some pages a thread";
  EXPECT_GT(ChooseDefaultBudget()->bytes, 0u);
}

TEST(Machine, HugePagePolicyIsTheOneInBrackets) {
  FakeMachine machine;
  EXPECT_EQ(HugePagePolicy(machine.root()), "");
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::pair<const char*, const char*> cases[] = {{"always [madvise] never\n", "madvise"},
                                                       {"[always] madvise never\n", "always"},
                                                       {"always madvise [never]", "never"},
                                                       {"always", ""},
                                                       {"]always[", ""},
                                                       {"", ""}};
  for (const auto& [text, policy] : cases) {
    machine.Put(path, text);
    EXPECT_EQ(HugePagePolicy(machine.root()), policy) << text;
  }
}

TEST(Machine, ProcessorsOfBothKindsAreNamed) {
  FakeMachine machine;
  machine.Put("/proc/cpuinfo",
              "processor\t: 0\nmodel\t\t: 17\nmodel name\t: Fast 9000 @ 3 GHz\nflags\t\t: fpu avx2 avx2x fma xavx "
              "avx512_vnni\n");
  EXPECT_EQ(ProcessorName(machine.root()), "Fast 9000 @ 3 GHz");
  EXPECT_THAT(ProcessorFeatures(machine.root()), ElementsAre("avx2", "fma", "avx512_vnni"));
  machine.Put("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n\nHardware\t: Phone\n");
  EXPECT_EQ(ProcessorName(machine.root()), "Phone");
  EXPECT_THAT(ProcessorFeatures(machine.root()), ElementsAre("asimd", "asimddp", "i8mm"));
}

TEST(Machine, MemoryIsReadInKilobytes) {
  FakeMachine machine;
  machine.Put("/proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n");
  const auto memory = ReadSystemMemory(machine.root());
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->total_bytes, 16 * kMiB);
  EXPECT_EQ(memory->available_bytes, 8 * kMiB);
  machine.Put("/proc/meminfo", "MemTotal: many kB\nMemAvailable: 1 kB\n");
  EXPECT_FALSE(ReadSystemMemory(machine.root()).has_value());
  machine.Put("/proc/self/status", "Name:\tx\nVmHWM:\t    2048 kB\n");
  EXPECT_EQ(PeakResidentBytes(machine.root()), 2 * kMiB);
  EXPECT_EQ(ResidentBytes(machine.root()), 0u);
}

TEST(Machine, TheTightestParentOfVersionOneCounts) {
  FakeMachine machine;
  machine.Put("/proc/self/mountinfo", std::string("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n") + kMountV1);
  machine.Put("/proc/self/cgroup", "5:cpu,cpuacct:/other\n4:hugetlb,memory:/a/b\n0::/\n");
  const std::string top = "/sys/fs/cgroup/memory";
  machine.Put(top + "/memory.limit_in_bytes", "9223372036854771712\n");
  machine.Put(top + "/a/memory.limit_in_bytes", "104857600\n");
  machine.Put(top + "/a/memory.usage_in_bytes", "1048576\n");
  machine.Put(top + "/a/b/memory.limit_in_bytes", "209715200\n");
  const auto found = FindCgroupMemory(machine.root());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->version, 1);
  EXPECT_EQ(found->folder, top + "/a");
  EXPECT_EQ(found->limit_bytes, 100 * kMiB);
  EXPECT_EQ(found->used_bytes, 1 * kMiB);
}

TEST(Machine, VersionTwoKnowsMax) {
  FakeMachine machine;
  machine.Put("/proc/self/mountinfo", kMountV2);
  machine.Put("/proc/self/cgroup", "0::/app.slice/x.scope\n");
  machine.Put("/sys/fs/cgroup/app.slice/memory.max", "max\n");
  machine.Put("/sys/fs/cgroup/app.slice/x.scope/memory.max", "max\n");
  EXPECT_FALSE(FindCgroupMemory(machine.root()).has_value());
  machine.Put("/sys/fs/cgroup/app.slice/memory.max", "524288000\n");
  machine.Put("/sys/fs/cgroup/app.slice/memory.current", "4096\n");
  const auto found = FindCgroupMemory(machine.root());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->version, 2);
  EXPECT_EQ(found->limit_bytes, 500 * kMiB);
  EXPECT_EQ(found->used_bytes, 4096u);
}

// A container sees its own group as the mount's top, while the path may still be the host's, or lead out of it.
TEST(Machine, ContainersReadTheTopOfTheirMount) {
  for (const char* group : {"0::/docker/abc", "0::/", "0::/../outside"}) {
    FakeMachine machine;
    machine.Put("/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    machine.Put("/proc/self/cgroup", std::string(group) + "\n");
    machine.Put("/sys/fs/cgroup/memory.max", "1048576\n");
    const auto found = FindCgroupMemory(machine.root());
    ASSERT_TRUE(found.has_value()) << group;
    EXPECT_EQ(found->folder, "/sys/fs/cgroup");
  }
}

TEST(Machine, BothVersionsAtOnceGiveTheTighterOne) {
  FakeMachine machine;
  machine.Put("/proc/self/mountinfo",
              std::string(kMountV1) + "41 31 0:38 / /sys/fs/cgroup/my\\040v2 rw - cgroup2 cgroup2 rw\n");
  machine.Put("/proc/self/cgroup", "4:memory:/m\n0::/u\n");
  machine.Put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "2097152\n");
  machine.Put("/sys/fs/cgroup/my v2/u/memory.max", "1048576\n");
  EXPECT_EQ(FindCgroupMemory(machine.root())->folder, "/sys/fs/cgroup/my v2/u");
}

TEST(Machine, DamagedFilesSayNothing) {
  const std::string kMounts[] = {"", "-\n", "a b c d e - cgroup2\n", "1 2 3 4 5 - cgroup2 x y\n", kMountV2};
  const std::string kGroups[] = {"", "\n", ":", "0:", "0::", "0::relative", "0::/a\n", "4:memory"};
  FakeMachine machine;
  machine.Put("/sys/fs/cgroup/memory.max", "lots\n");
  machine.Put("/sys/fs/cgroup/a/memory.max", "");
  for (const std::string& mounts : kMounts) {
    machine.Put("/proc/self/mountinfo", mounts);
    for (const std::string& groups : kGroups) {
      machine.Put("/proc/self/cgroup", groups);
      EXPECT_FALSE(FindCgroupMemory(machine.root()).has_value()) << mounts << groups;
    }
  }
}

TEST(Machine, TheDefaultBudgetIsTheLimitOrWhatIsAvailableLessAMargin) {
  FakeMachine machine;
  machine.Put("/proc/meminfo", "MemTotal: 16384 kB\nMemAvailable: 8192 kB\n");
  EXPECT_EQ(ChooseDefaultBudget(machine.root())->bytes, 7 * kMiB);
  machine.Put("/proc/self/mountinfo", kMountV2);
  machine.Put("/proc/self/cgroup", "0::/a\n");
  machine.Put("/sys/fs/cgroup/a/memory.max", "8388608\n");
  const auto limited = ChooseDefaultBudget(machine.root());
  EXPECT_EQ(limited->bytes, 8 * kMiB);
  EXPECT_THAT(limited->source, HasSubstr("/sys/fs/cgroup/a"));
  machine.Put("/sys/fs/cgroup/a/memory.max", "8392704\n");  // more than is there
  EXPECT_THAT(ChooseDefaultBudget(machine.root())->source, HasSubstr("available"));
  machine.Put("/proc/meminfo", "MemTotal: 16384 kB\nMemAvailable: 512 kB\n");
  EXPECT_EQ(ChooseDefaultBudget(machine.root())->bytes, kMiB / 4);
}

}  // namespace
}  // namespace estream
