// SPDX-License-Identifier: Apache-2.0
// What must not change the CPU device's bits, with int8 and with float activations: threads, targets, neighbouring
// rows, later tokens, capacity, calls.
#include "device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "kernels/each_target.h"
#include "tests/device_cases.h"

namespace estream {
namespace {

constexpr AttentionShape kAttention = {
    300, 64, 8, 2, 24, 16, RopeStyle::kHalves, QkNorm::kPerHead, WeightFormat::kQ5_0};

std::vector<float> RowsOf(const std::vector<float>& values, const std::vector<uint32_t>& rows, size_t width) {
  std::vector<float> out;
  for (uint32_t r : rows) out.insert(out.end(), values.begin() + r * width, values.begin() + (r + 1) * width);
  return out;
}

// One call of each kind that has sums in it.
std::vector<BlockCase> SomeBlocks() {
  Random random(11);
  std::vector<BlockCase> cases = {MakeAttentionCase(kAttention, random), MakeRouterCase({300, 96, 20, 4}, random)};
  RandomRecord record(random);
  BlockCase linear;
  linear.spec = LinearSpec{record.Matrix(WeightFormat::kQ4_K, 200, 768)};
  linear.record = record.Finish();
  linear.in = random.Floats(300 * 768);
  linear.call.tokens = linear.call.rows = 300;
  linear.call.row_count = linear.call.out_stride = 200;
  linear.out_count = 300 * 200;
  cases.push_back(linear);
  return cases;
}

ExpertCase SomeExperts() {
  Random random(12);
  ExpertCase c =
      MakeExpertCase({128, 96, 6, WeightFormat::kQ4_0, WeightFormat::kQ4_0, WeightFormat::kQ8_0}, 150, random);
  c.routes = RandomRoutes(150, 6, 3, random);
  return c;
}

void ExpectSameBits(const BlockOutcome& a, const BlockOutcome& b) {
  EXPECT_EQ(a.out, b.out);
  EXPECT_EQ(a.routes, b.routes);
}

class CpuDeviceBits : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Activations, CpuDeviceBits, testing::Values("q8", "f32"));

TEST_P(CpuDeviceBits, ThreadsDoNotChangeBits) {
  DeviceRig one("cpu", 1, GetParam()), two("cpu", 2, GetParam()), three("cpu", 3, GetParam());
  for (const BlockCase& c : SomeBlocks()) {
    const BlockOutcome expected = RunBlock(one, c);
    ASSERT_TRUE(expected.status.ok()) << expected.status.message();
    ExpectSameBits(RunBlock(two, c), expected);
    ExpectSameBits(RunBlock(three, c), expected);
  }
  const ExpertCase experts = SomeExperts();
  const std::vector<float> expected = RunExperts(one, experts);
  EXPECT_EQ(RunExperts(two, experts), expected);
  EXPECT_EQ(RunExperts(three, experts), expected);
}

TEST_P(CpuDeviceBits, TargetsDoNotChangeBits) {
  const std::vector<BlockCase> blocks = SomeBlocks();
  const ExpertCase experts = SomeExperts();
  std::vector<BlockOutcome> first;
  std::vector<float> first_experts;
  ForEachTarget([&] {
    DeviceRig cpu("cpu", 2, GetParam());
    std::vector<BlockOutcome> outcomes;
    for (const BlockCase& c : blocks) outcomes.push_back(RunBlock(cpu, c));
    const std::vector<float> y = RunExperts(cpu, experts);
    if (first.empty()) {
      first = outcomes;
      first_experts = y;
    }
    for (size_t i = 0; i < outcomes.size(); ++i) ExpectSameBits(outcomes[i], first[i]);
    EXPECT_EQ(y, first_experts);
  });
}

TEST_P(CpuDeviceBits, CapacityAndOtherGraphsDoNotChangeBits) {
  DeviceRig tight("cpu", 2, GetParam()), roomy("cpu", 2, GetParam());
  for (const BlockCase& c : SomeBlocks()) ExpectSameBits(RunBlock(roomy, c, 1000), RunBlock(tight, c));
  const ExpertCase experts = SomeExperts();
  EXPECT_EQ(RunExperts(roomy, experts, 5000), RunExperts(tight, experts));
}

TEST_P(CpuDeviceBits, ChosenRowsOfAttentionEqualAllRows) {
  Random random(13);
  const BlockCase all = MakeAttentionCase(kAttention, random);
  DeviceRig cpu("cpu", 2, GetParam());
  const std::vector<float> expected = RunBlock(cpu, all).out;
  std::vector<uint32_t> every_third, everything(kAttention.tokens);
  for (uint32_t r = 1; r < kAttention.tokens; r += 3) every_third.push_back(r);
  std::iota(everything.begin(), everything.end(), 0u);
  for (const auto& rows :
       {std::vector<uint32_t>{0}, {63}, {64}, {299}, {0, 1, 64, 128, 298}, every_third, everything}) {
    const BlockOutcome some = RunBlock(cpu, WithRows(all, rows, kAttention.hidden));
    ASSERT_TRUE(some.status.ok()) << some.status.message();
    EXPECT_EQ(some.out, RowsOf(expected, rows, kAttention.hidden));
  }
}

TEST_P(CpuDeviceBits, AttentionInPlaceEqualsOutOfPlace) {
  Random random(14);
  BlockCase c = MakeAttentionCase(kAttention, random);
  DeviceRig cpu("cpu", 2, GetParam());
  const std::vector<float> expected = RunBlock(cpu, c).out;
  c.in_place = true;
  EXPECT_EQ(RunBlock(cpu, c).out, expected);
}

TEST_P(CpuDeviceBits, LaterTokensDoNotChangeEarlierRows) {
  Random random(15);
  const BlockCase all = MakeAttentionCase(kAttention, random);
  DeviceRig cpu("cpu", 2, GetParam());
  const std::vector<float> expected = RunBlock(cpu, all).out;
  for (const uint32_t tokens : {1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257}) {
    BlockCase prefix = all;
    prefix.call.tokens = prefix.call.rows = tokens;
    prefix.in.resize(size_t{tokens} * kAttention.hidden);
    prefix.out_count = prefix.in.size();
    const std::vector<float> out = RunBlock(cpu, prefix).out;
    EXPECT_TRUE(std::equal(out.begin(), out.end(), expected.begin())) << tokens << " tokens";
  }
}

TEST_P(CpuDeviceBits, RowsOfProductsAndRoutersDoNotDependOnEachOther) {
  DeviceRig cpu("cpu", 2, GetParam());
  const std::vector<BlockCase> cases = SomeBlocks();
  for (size_t i = 1; i < cases.size(); ++i) {  // all but attention, whose rows do see each other
    const BlockOutcome all = RunBlock(cpu, cases[i]);
    const size_t in_width = cases[i].in.size() / 300, out_width = cases[i].out_count / 300;
    const size_t top_k = cases[i].route_count / 300;
    for (const uint32_t row : {0u, 6u, 7u, 8u, 255u, 256u, 299u}) {
      BlockCase one = cases[i];
      one.in = RowsOf(cases[i].in, {row}, in_width);
      one.call.tokens = one.call.rows = 1;
      one.out_count = out_width;
      one.route_count = top_k;
      const BlockOutcome alone = RunBlock(cpu, one);
      EXPECT_EQ(alone.out, RowsOf(all.out, {row}, out_width));
      for (size_t k = 0; k < top_k; ++k) {
        EXPECT_EQ(alone.routes[k].expert, all.routes[row * top_k + k].expert);
        EXPECT_EQ(alone.routes[k].weight, all.routes[row * top_k + k].weight);
      }
    }
  }
}

// One call with all routes against many calls with a few, in the same order of slots and routes.
TEST_P(CpuDeviceBits, SplittingRoutesOverCallsDoesNotChangeBits) {
  Random random(16);
  ExpertCase all = MakeExpertCase({64, 64, 3}, 200, random);
  for (uint32_t i = 0; i < 700; ++i) all.routes.push_back({2, i % 200, random.Uniform(0.1f, 1)});  // slot 1
  for (uint32_t i = 0; i < 90; ++i) all.routes.push_back({0, i * 2, random.Uniform(0.1f, 1)});     // slot 3
  DeviceRig cpu("cpu", 2, GetParam());
  const std::vector<float> expected = RunExperts(cpu, all);
  for (const uint32_t piece : {1u, 7u, 64u, 255u, 256u, 257u}) {
    ExpertCase part = all;
    for (size_t first = 0; first < all.routes.size(); first += piece) {
      const size_t count = std::min<size_t>(piece, all.routes.size() - first);
      part.routes.assign(all.routes.begin() + first, all.routes.begin() + first + count);
      part.y = RunExperts(cpu, part);
    }
    EXPECT_EQ(part.y, expected) << piece << " routes a call";
  }
}

TEST_P(CpuDeviceBits, RoutesOfATokenAreSummedInTheOrderOfSlots) {
  Random random(17);
  ExpertCase c = MakeExpertCase({64, 64, 5}, 40, random);
  c.routes = RandomRoutes(40, 5, 5, random);
  DeviceRig cpu("cpu", 2, GetParam());
  const std::vector<float> expected = RunExperts(cpu, c);
  std::stable_sort(c.routes.begin(), c.routes.end(),
                   [&](const Route& a, const Route& b) { return c.placement[a.expert] < c.placement[b.expert]; });
  EXPECT_EQ(RunExperts(cpu, c), expected);
}

TEST(CpuDevice, ScratchIsRegisteredSharedAndReturned) {
  MemoryLedger ledger;
  {
    DeviceRig cpu("cpu", 2, "q8", &ledger);
    Random random(18);
    const BlockCase large = MakeAttentionCase(kAttention, random), small = MakeRouterCase({8, 64, 8, 2}, random);
    cpu.Build(large.spec, {300, 0});
    const uint64_t held = ledger.TotalBytes();
    EXPECT_GT(held, 0u);
    EXPECT_EQ(ledger.Entries().front().name, "device scratch");
    cpu.Build(small.spec, {8, 0});
    EXPECT_EQ(ledger.TotalBytes(), held);
    cpu.Build(large.spec, {3000, 0});
    EXPECT_GT(ledger.TotalBytes(), held);
  }
  EXPECT_EQ(ledger.TotalBytes(), 0u);
}

TEST(CpuDevice, ALogitThatIsNotFiniteNamesTheFirstSuchRow) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Random random(19);
    BlockCase c = MakeRouterCase({100, 64, 8, 2}, random);
    c.in[77 * 64 + 5] = bad;
    c.in[31 * 64] = bad;
    DeviceRig cpu("cpu", 2);
    const BlockOutcome outcome = RunBlock(cpu, c);
    EXPECT_EQ(outcome.status.code(), StatusCode::kDevice);
    EXPECT_EQ(outcome.status.message(), "router logit of row 31 is not finite");
  }
}

TEST(CpuDevice, TicketsCountCallsAndUnknownOnesAreRefused) {
  DeviceRig cpu("cpu", 1);
  EXPECT_TRUE(cpu.device().Wait(0).ok());
  EXPECT_EQ(cpu.device().Wait(1).code(), StatusCode::kInvalidArgument);
  Random random(20);
  ASSERT_TRUE(RunBlock(cpu, MakeRouterCase({8, 64, 8, 2}, random)).status.ok());
  EXPECT_TRUE(cpu.device().Wait(1).ok());
}

TEST(CpuDevice, TracedPartsOfABlockDoNotOverlap) {
  TraceRecorder trace;
  DeviceRig rig("cpu", 2, "q8", nullptr, &trace);
  Random random(13);
  ASSERT_TRUE(RunBlock(rig, MakeAttentionCase(kAttention, random)).status.ok());
  const std::vector<TraceRecorder::Span> spans = trace.spans();
  uint64_t end_ns = 0;
  std::set<std::string> names;
  for (const TraceRecorder::Span& span : spans) {
    EXPECT_EQ(span.track, TraceTrack::kDevice);
    EXPECT_GE(span.begin_ns, end_ns);
    end_ns = span.end_ns;
    names.insert(span.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"attention", "product"}));
}

}  // namespace
}  // namespace estream
