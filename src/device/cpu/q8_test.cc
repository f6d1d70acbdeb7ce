// SPDX-License-Identifier: Apache-2.0
// Int8 activations on the CPU device: products against exact ones of the rounded rows, fused operators against their
// parts bit for bit, formats that take floats, and what is kept from one expert call to the next.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/cpu/product_rows.h"
#include "kernels/activation.h"
#include "tests/device_cases.h"

namespace estream {
namespace {

std::vector<WeightFormat> Q8Formats() {
  std::vector<WeightFormat> formats;
  for (const WeightFormat format : AllWeightFormats()) {
    if (HasQ8(format)) formats.push_back(format);
  }
  return formats;
}

// Rows of `cols` values as products see them: rounded to int8 and back.
std::vector<float> Rounded(const std::vector<float>& x, uint64_t cols) {
  std::vector<float> out;
  std::vector<int8_t> values(cols);
  std::vector<ActivationBlock> blocks(cols / 32);
  for (size_t row = 0; row < x.size(); row += cols) {
    QuantizeRow(x.data() + row, 0, {.rows = 1, .cols = cols, .values = values.data(), .blocks = blocks.data()});
    for (uint64_t i = 0; i < cols; ++i) out.push_back(blocks[i / 32].scale * static_cast<float>(values[i]));
  }
  return out;
}

// x Wᵀ for rows of x, as one call.
BlockCase LinearCase(const MatrixSpec& matrix, std::vector<std::byte> record, std::vector<float> x) {
  BlockCase c;
  c.spec = LinearSpec{matrix};
  c.record = std::move(record);
  c.call.tokens = c.call.rows = static_cast<uint32_t>(x.size() / matrix.cols);
  c.call.row_count = c.call.out_stride = matrix.rows;
  c.out_count = uint64_t{c.call.rows} * matrix.rows;
  c.in = std::move(x);
  return c;
}

// Products of at most 2048 terms of size 1 / sqrt(cols), summed in floats.
constexpr double kTolerance = 5e-5;

TEST(CpuQ8, ProductsAreThoseOfTheRoundedRows) {
  struct Shape {
    uint32_t rows, outputs, cols;
  };
  DeviceRig cpu("cpu", 2, "q8"), reference("reference");
  for (const WeightFormat format : Q8Formats()) {
    for (const Shape& s :
         {Shape{1, 1, 256}, {7, 33, 768}, {33, 100, 32}, {95, 64, 96}, {97, 31, 160}, {257, 65, 512}}) {
      if (!CanTile(format, s.cols)) continue;
      SCOPED_TRACE(testing::Message() << Traits(format).name << ", " << s.rows << " x " << s.cols);
      Random random(s.rows);
      RandomRecord record(random);
      const MatrixSpec matrix = record.Matrix(format, s.outputs, s.cols);
      const std::vector<float> x = random.Floats(uint64_t{s.rows} * s.cols);
      const std::vector<float> got = RunBlock(cpu, LinearCase(matrix, record.Finish(), x)).out;
      const std::vector<float> want = RunBlock(reference, LinearCase(matrix, record.Finish(), Rounded(x, s.cols))).out;
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], kTolerance * (1 + std::abs(want[i]))) << "value " << i;
      }
    }
  }
}

TEST(CpuQ8, FormatsWithoutInt8ProductsTakeFloats) {
  DeviceRig q8("cpu", 2, "q8"), f32("cpu", 2, "f32");
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    SCOPED_TRACE(Traits(format).name);
    Random random(21);
    RandomRecord record(random);
    const MatrixSpec matrix = record.Matrix(format, 100, 96);
    const BlockCase linear = LinearCase(matrix, record.Finish(), random.Floats(33 * 96));
    EXPECT_EQ(RunBlock(q8, linear).out, RunBlock(f32, linear).out);
    ExpertCase experts = MakeExpertCase({64, 96, 3, format, format, format}, 40, random);
    experts.routes = RandomRoutes(40, 3, 2, random);
    EXPECT_EQ(RunExperts(q8, experts), RunExperts(f32, experts));
  }
}

// W_d (SiLU(W_g x) ⊙ W_u x) of all rows of x by three separate products.
std::vector<float> FfnByParts(DeviceRig& rig, const MatrixSpec& gate, const MatrixSpec& up, const MatrixSpec& down,
                              const std::vector<std::byte>& record, const std::vector<float>& x) {
  std::vector<float> inner = RunBlock(rig, LinearCase(gate, record, x)).out;
  const std::vector<float> ups = RunBlock(rig, LinearCase(up, record, x)).out;
  SwiGlu(inner.data(), ups.data(), inner.size(), inner.data());
  return RunBlock(rig, LinearCase(down, record, inner)).out;
}

// y of an expert call, expert by expert in the order of slots, from whole products of all tokens.
std::vector<float> ExpertsByParts(DeviceRig& rig, const ExpertCase& c) {
  std::vector<float> y = c.y;
  for (uint32_t slot = 0; slot < c.slot_count; ++slot) {
    const auto begin = c.arena.begin() + static_cast<int64_t>(slot * c.spec.record_bytes);
    const std::vector<std::byte> record(begin, begin + static_cast<int64_t>(c.spec.record_bytes));
    std::vector<float> out;
    for (const Route& r : c.routes) {
      if (c.placement[r.expert] != static_cast<int32_t>(slot)) continue;
      if (out.empty()) out = FfnByParts(rig, c.spec.gate, c.spec.up, c.spec.down, record, c.x);
      const uint64_t row = uint64_t{r.token} * c.spec.hidden;
      AddScaled(r.weight, out.data() + row, c.spec.hidden, y.data() + row);
    }
  }
  return y;
}

TEST(CpuQ8, FusedExpertsAreTheirPartsForEveryFormat) {
  DeviceRig cpu("cpu", 2, "q8");
  for (const WeightFormat format : Q8Formats()) {
    SCOPED_TRACE(Traits(format).name);
    Random random(22);
    ExpertCase c = MakeExpertCase({256, 512, 3, format, format, format}, 50, random);
    c.routes = RandomRoutes(50, 3, 2, random);
    EXPECT_EQ(RunExperts(cpu, c), ExpertsByParts(cpu, c));
  }
}

TEST(CpuQ8, FusedExpertsAreTheirPartsForEveryMixOfIntAndFloat) {
  constexpr WeightFormat kInt = WeightFormat::kQ5_0, kFloat = WeightFormat::kF16;
  DeviceRig cpu("cpu", 2, "q8");
  for (const WeightFormat gate : {kInt, kFloat}) {
    for (const WeightFormat up : {kInt, kFloat}) {
      for (const WeightFormat down : {kInt, kFloat}) {
        SCOPED_TRACE(testing::Message() << Traits(gate).name << Traits(up).name << Traits(down).name);
        Random random(23);
        ExpertCase c = MakeExpertCase({96, 160, 4, gate, up, down}, 30, random);
        c.routes = RandomRoutes(30, 4, 3, random);
        EXPECT_EQ(RunExperts(cpu, c), ExpertsByParts(cpu, c));
      }
    }
  }
}

TEST(CpuQ8, FusedExpertsAreTheirPartsForEveryNumberOfRoutes) {
  DeviceRig cpu("cpu", 2, "q8");
  Random random(24);
  const ExpertCase base = MakeExpertCase({96, 64, 5}, 70, random);
  for (const uint32_t count : {0, 1, 2, 31, 32, 33, 95, 96, 97, 300, 600}) {
    ExpertCase c = base;
    for (uint32_t i = 0; i < count; ++i) c.routes.push_back({3, i % 70, 0.5f});  // all to one expert, tokens repeat
    EXPECT_EQ(RunExperts(cpu, c), ExpertsByParts(cpu, c)) << count << " routes to one expert";
  }
}

TEST(CpuQ8, ExpertBitsDoNotDependOnRoutesOrThreads) {
  constexpr uint32_t kMost = 70;
  DeviceRig one("cpu", 1, "q8"), two("cpu", 2, "q8");
  for (const WeightFormat format :
       {WeightFormat::kQ4_0, WeightFormat::kQ8_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K}) {
    SCOPED_TRACE(Traits(format).name);
    Random random(28);
    ExpertCase c = MakeExpertCase({512, 256, 1, format, format, format}, kMost, random);
    for (uint32_t i = 0; i < kMost; ++i) c.routes.push_back({0, i, 0.5f});
    const std::vector<Route> routes = c.routes;
    const std::vector<float> all = RunExperts(one, c);
    for (uint32_t count = 1; count <= kMost; ++count) {
      c.routes.assign(routes.begin(), routes.begin() + count);
      for (DeviceRig* rig : {&one, &two}) {
        std::vector<float> some = RunExperts(*rig, c);
        some.resize(uint64_t{count} * c.spec.hidden);
        ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << count << " routes";
      }
    }
  }
}

TEST(CpuQ8, DenseFeedForwardIsItsParts) {
  DeviceRig cpu("cpu", 2, "q8");
  for (const WeightFormat down : {WeightFormat::kQ6_K, WeightFormat::kBF16}) {
    Random random(25);
    RandomRecord record(random);
    const MatrixSpec gate = record.Matrix(WeightFormat::kQ4_0, 256, 96),
                     up = record.Matrix(WeightFormat::kQ5_1, 256, 96);
    const FfnSpec spec{96, 256, gate, up, record.Matrix(down, 96, 256)};
    BlockCase c;
    c.spec = spec;
    c.record = record.Finish();
    c.in = random.Floats(300 * 96);
    c.call.tokens = c.call.rows = 300;
    c.out_count = c.in.size();  // zeros, to which the block adds
    EXPECT_EQ(RunBlock(cpu, c).out, FfnByParts(cpu, gate, up, spec.down, c.record, c.in));
  }
}

// The error of what attention adds to the residual, as a share of it.
double AttentionError(const AttentionShape& shape) {
  DeviceRig cpu("cpu", 2, "q8"), reference("reference");
  Random random(26);
  const BlockCase c = MakeAttentionCase(shape, random);
  const std::vector<float> got = RunBlock(cpu, c).out, want = RunBlock(reference, c).out;
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double added = double{want[i]} - c.in[i];
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    size += added * added;
  }
  return std::sqrt(error / size);
}

// Half a step in 127 in each value is about 1 % of a product, rounding keys and values to 11 bits a few 1e-4; softmax
// and norms add to both.
TEST(CpuQ8, AttentionStaysNearTheExactOne) {
  for (const WeightFormat format : AllWeightFormats()) {
    for (const uint32_t head_dim : {64u, 48u, 36u}) {
      const AttentionShape shape{130, 256, 4, 2, head_dim, 32, RopeStyle::kHalves, QkNorm::kPerHead, format};
      if (!CanTile(format, 4 * head_dim)) continue;
      const double error = AttentionError(shape);
      EXPECT_LT(error, HasQ8(format) ? 0.03 : 1e-3) << Traits(format).name << ", head_dim " << head_dim;
      EXPECT_GT(error, HasQ8(format) ? 1e-3 : 1e-5) << Traits(format).name << " was not rounded";
    }
  }
}

// Calls of one layer, group by group: x is quantised in the first.
class SameX : public ::testing::Test {
 protected:
  SameX() : random_(27), case_(MakeExpertCase({64, 64, 2}, 20, random_)) {
    case_.routes = RandomRoutes(20, 2, 1, random_);
    call_.graph = cpu_.Build(case_.spec, {20, 20});
    x_ = cpu_.Upload(case_.x);
    y_ = cpu_.Upload(case_.y);
    call_.tokens = call_.route_count = 20;
    call_.expert_count = 2;
    call_.slot_count = case_.slot_count;
    call_.slot_stride = case_.spec.record_bytes;
    call_.x = x_.ref();
    call_.y = y_.ref();
    call_.routes = cpu_.Upload(case_.routes).ref();
    call_.placement = cpu_.Upload(case_.placement).ref();
    call_.arena = cpu_.Upload(case_.arena).ref();
  }

  // y of a call with `x` in the buffer.
  std::vector<float> Run(const std::vector<float>& x, uint32_t same_x) {
    std::copy(x.begin(), x.end(), x_.as<float>());
    std::copy(case_.y.begin(), case_.y.end(), y_.as<float>());
    call_.same_x = same_x;
    EXPECT_TRUE(cpu_.Run(call_).ok());
    return {y_.as<float>(), y_.as<float>() + case_.y.size()};
  }

  // The same on a device that has nothing to remember.
  std::vector<float> Fresh(const std::vector<float>& x) {
    ExpertCase c = case_;
    c.x = x;
    DeviceRig rig("cpu", 1, "q8");
    return RunExperts(rig, c);
  }

  Random random_;
  DeviceRig cpu_{"cpu", 2, "q8"};
  ExpertCase case_;
  ExpertInvocation call_;
  DeviceBuffer x_, y_;
};

TEST_F(SameX, IsQuantisedOnceAndGivesTheSameBits) {
  const std::vector<float> expected = Fresh(case_.x);
  EXPECT_EQ(Run(case_.x, 0), expected);
  EXPECT_EQ(Run(case_.x, 1), expected);
  // A promise that is broken on purpose: the old rows are used, so they were kept.
  EXPECT_EQ(Run(random_.Floats(case_.x.size()), 1), expected);
}

TEST_F(SameX, IsNotBelievedWhereTheDeviceKnowsBetter) {
  const std::vector<float> other = random_.Floats(case_.x.size());
  const std::vector<float> expected = Fresh(other);
  EXPECT_EQ(Run(other, 1), expected) << "no call before";
  Run(case_.x, 0);
  EXPECT_EQ(Run(other, 0), expected) << "not said to be the same";
  Run(case_.x, 0);
  ASSERT_TRUE(RunBlock(cpu_, MakeRouterCase({20, 64, 8, 2}, random_)).status.ok());
  EXPECT_EQ(Run(other, 1), expected) << "another block has run";
  Run(case_.x, 0);
  cpu_.Build(case_.spec, {5000, 5000});
  EXPECT_EQ(Run(other, 1), expected) << "the scratch memory was replaced";
  Run(case_.x, 0);
  const uint32_t first_graph = call_.graph;
  call_.graph = cpu_.Build(case_.spec, {20, 20});
  EXPECT_EQ(Run(other, 1), expected) << "another graph";
  call_.graph = first_graph;
  Run(case_.x, 0);
  const DeviceBuffer elsewhere = cpu_.Upload(other);
  call_.x = elsewhere.ref();
  EXPECT_EQ(Run(case_.x, 1), expected) << "another buffer";
}

}  // namespace
}  // namespace estream
