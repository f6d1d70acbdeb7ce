// SPDX-License-Identifier: Apache-2.0
// The CPU device against the reference device on random calls of every kind.
#include "device/device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/device_cases.h"

namespace estream {
namespace {

// Values are near 1 and sums have up to 2048 terms in f32: errors of a few 1e-6, times a few
// through softmax and SwiGLU.
constexpr double kDeviceTolerance = 5e-5;

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], kDeviceTolerance * (1 + std::abs(expected[i]))) << "value " << i;
  }
}

// Runs `c` on both devices.
void ExpectAgreement(const BlockCase& c) {
  DeviceRig cpu("cpu", 2), reference("reference");
  const BlockOutcome got = RunBlock(cpu, c), expected = RunBlock(reference, c);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ASSERT_TRUE(expected.status.ok()) << expected.status.message();
  ExpectNear(got.out, expected.out);
  ASSERT_EQ(got.routes.size(), expected.routes.size());
  for (size_t i = 0; i < got.routes.size(); ++i) {
    ASSERT_EQ(got.routes[i].expert, expected.routes[i].expert) << "route " << i;
    ASSERT_EQ(got.routes[i].token, expected.routes[i].token) << "route " << i;
    ASSERT_NEAR(got.routes[i].weight, expected.routes[i].weight, kDeviceTolerance) << "route " << i;
  }
}

TEST(Devices, AgreeOnEmbeddings) {
  for (const WeightFormat format : AllWeightFormats()) {
    SCOPED_TRACE(Traits(format).name);
    Random random(1);
    BlockCase c;
    c.spec = EmbeddingSpec{format, 512};
    c.record = RandomWeights(format, 13, 512, random);
    c.call.tokens = c.call.rows = 13;
    c.out_count = 13 * 512;
    DeviceRig cpu("cpu", 2), reference("reference");
    EXPECT_EQ(RunBlock(cpu, c).out, RunBlock(reference, c).out);  // decoding is exact
  }
}

TEST(Devices, AgreeOnNorms) {
  for (const uint32_t rows : {1, 7, 8, 9, 65}) {
    Random random(rows);
    RandomRecord record(random);
    BlockCase c;
    c.spec = NormSpec{96, 1e-5f, record.Vector(96, 0.5f, 1.5f)};
    c.record = record.Finish();
    c.in = random.Floats(rows * 96, -3, 3);
    c.call.tokens = c.call.rows = rows;
    c.out_count = c.in.size();
    ExpectAgreement(c);
    c.in_place = true;
    ExpectAgreement(c);
    c.in_place = false;
    ExpectAgreement(WithRows(c, {rows - 1, 0, rows / 2, rows / 2}, 96));
  }
}

TEST(Devices, AgreeOnProductsOfEveryFormat) {
  for (const WeightFormat format : AllWeightFormats()) {
    SCOPED_TRACE(Traits(format).name);
    Random random(2);
    RandomRecord record(random);
    BlockCase c;
    c.spec = LinearSpec{record.Matrix(format, 100, 512)};
    c.record = record.Finish();
    c.in = random.Floats(33 * 512);
    c.call.tokens = c.call.rows = 33;
    c.call.row_count = c.call.out_stride = 100;
    c.out_count = 33 * 100;
    ExpectAgreement(c);
  }
}

TEST(Devices, AgreeOnPartsOfProducts) {
  struct Part {
    uint32_t rows, cols, tokens, first_row, row_count, out_stride;
  };
  for (const Part& p : {Part{1, 32, 1, 0, 1, 1},
                        {64, 96, 5, 32, 32, 40},
                        {65, 160, 64, 64, 1, 3},
                        {100, 64, 300, 32, 68, 68},
                        {128, 2048, 31, 0, 96, 128},
                        {200, 64, 257, 64, 64, 64}}) {
    Random random(p.rows);
    RandomRecord record(random);
    BlockCase c;
    c.spec = LinearSpec{record.Matrix(WeightFormat::kF16, p.rows, p.cols)};
    c.record = record.Finish();
    c.in = random.Floats(size_t{p.tokens} * p.cols);
    c.call.tokens = c.call.rows = p.tokens;
    c.call.first_row = p.first_row;
    c.call.row_count = p.row_count;
    c.call.out_stride = p.out_stride;
    c.out_count = uint64_t{p.tokens} * p.out_stride;  // what lies between rows stays as it was on both
    ExpectAgreement(c);
  }
}

TEST(Devices, AgreeOnAttention) {
  constexpr auto kHalves = RopeStyle::kHalves, kAdjacent = RopeStyle::kAdjacent;
  const AttentionShape shapes[] = {
      {1, 64, 2, 2, 16, 16, kHalves, QkNorm::kNone},
      {31, 64, 4, 2, 16, 16, kAdjacent, QkNorm::kNone, WeightFormat::kQ4_0},
      {32, 96, 4, 1, 32, 32, kHalves, QkNorm::kPerHead, WeightFormat::kQ5_1},
      {33, 64, 8, 8, 12, 12, kHalves, QkNorm::kNone},
      {63, 64, 16, 4, 10, 6, kAdjacent, QkNorm::kPerHead, WeightFormat::kF32},
      {64, 128, 2, 2, 64, 64, kHalves, QkNorm::kFull, WeightFormat::kQ4_1},
      {65, 128, 8, 2, 32, 16, kHalves, QkNorm::kFull, WeightFormat::kBF16},
      {130, 64, 2, 1, 48, 0, kHalves, QkNorm::kNone},
      {300, 64, 4, 2, 32, 32, kHalves, QkNorm::kPerHead},
      {40, 256, 2, 2, 128, 128, kHalves, QkNorm::kFull, WeightFormat::kQ6_K},
  };
  for (const AttentionShape& s : shapes) {
    SCOPED_TRACE(testing::Message() << s.tokens << " tokens, head_dim " << s.head_dim);
    Random random(s.tokens);
    BlockCase c = MakeAttentionCase(s, random);
    ExpectAgreement(c);
    c.in_place = true;
    ExpectAgreement(c);
    c.in_place = false;
    ExpectAgreement(WithRows(c, {s.tokens - 1}, s.hidden));
  }
}

TEST(Devices, AgreeOnRouting) {
  const RouterShape shapes[] = {
      {1, 32, 1, 1},
      {7, 64, 4, 2, Gating::kSoftmax, 1},
      {33, 100, 9, 9},
      {64, 128, 64, 8},
      {65, 64, 128, 8, Gating::kSoftmax, 1},
      {20, 64, 32, 4, Gating::kSigmoid, 1, true},
      {9, 64, 32, 4, Gating::kSoftmax, 0, true},
  };
  for (const RouterShape& s : shapes) {
    SCOPED_TRACE(testing::Message() << s.rows << " rows, " << s.experts << " experts");
    Random random(s.rows);
    ExpectAgreement(MakeRouterCase(s, random));
  }
}

void ExpectExpertsAgree(const ExpertCase& c) {
  DeviceRig cpu("cpu", 2), reference("reference");
  ExpectNear(RunExperts(cpu, c), RunExperts(reference, c));
}

TEST(Devices, AgreeOnExpertsOfEveryFormat) {
  for (const WeightFormat format : AllWeightFormats()) {
    SCOPED_TRACE(Traits(format).name);
    Random random(3);
    ExpertCase c = MakeExpertCase({256, 256, 3, format, format, format}, 9, random);
    c.routes = RandomRoutes(9, 3, 2, random);
    ExpectExpertsAgree(c);
  }
}

TEST(Devices, AgreeOnExpertsOfMixedFormats) {
  Random random(4);
  ExpertCase c =
      MakeExpertCase({64, 256, 4, WeightFormat::kQ4_0, WeightFormat::kQ5_0, WeightFormat::kQ6_K}, 20, random);
  c.routes = RandomRoutes(20, 4, 3, random);
  ExpectExpertsAgree(c);
}

TEST(Devices, AgreeOnEveryDistributionOfRoutes) {
  Random random(5);
  const ExpertCase base = MakeExpertCase({96, 64, 5}, 70, random);
  for (const uint32_t count : {0, 1, 31, 32, 33, 63, 64, 65, 300, 600}) {
    ExpertCase c = base;
    for (uint32_t i = 0; i < count; ++i) c.routes.push_back({3, i % 70, 0.5f});  // all to one expert, tokens repeat
    SCOPED_TRACE(testing::Message() << count << " routes to one expert");
    ExpectExpertsAgree(c);
  }
  ExpertCase all = base;
  all.routes = RandomRoutes(70, 5, 5, random);  // every token to every expert
  ExpectExpertsAgree(all);
}

TEST(Devices, GiveOutNumbersOfDroppedGraphsAgain) {
  for (const char* name : {"cpu", "reference"}) {
    const auto made = MakeDevice({name, 1, nullptr, ""});
    ASSERT_TRUE(made.ok());
    Device* const device = made->get();
    const BlockSpec spec = NormSpec{64, 1e-5f, {64, 0, 0}};
    const uint32_t kept = *device->Build(spec, {8, 8});
    const uint32_t dropped = *device->Build(spec, {8, 8});
    device->Drop(dropped);
    BlockInvocation call;
    call.graph = dropped;
    EXPECT_EQ(device->Submit(call).status().code(), StatusCode::kInvalidArgument);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(*device->Build(spec, {8, 8}), dropped);
      device->Drop(dropped);
    }
    EXPECT_NE(kept, dropped);
  }
}

TEST(Devices, AreFoundByName) {
  auto reference = MakeDevice({"reference", 0, nullptr, ""});
  ASSERT_TRUE(reference.ok());
  EXPECT_EQ((*reference)->traits().activations, "f32");
  auto cpu = MakeDevice({"cpu", 3, nullptr, ""});
  ASSERT_TRUE(cpu.ok());
  EXPECT_EQ((*cpu)->traits().threads, 3u);
  EXPECT_EQ((*cpu)->traits().name, "cpu");
  EXPECT_EQ((*cpu)->traits().activations, "q8");
  auto unknown = MakeDevice({"gpu", 0, nullptr, ""});
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(), "unknown device \"gpu\"; known: cpu, reference");
  EXPECT_EQ(MakeDevice({"cpu", 100000, nullptr, ""}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Devices, HaveTheirActivations) {
  EXPECT_EQ((*MakeDevice({"cpu", 1, nullptr, "f32"}))->traits().activations, "f32");
  EXPECT_EQ((*MakeDevice({"cpu", 1, nullptr, "q8"}))->traits().activations, "q8");
  EXPECT_TRUE(MakeDevice({"reference", 1, nullptr, "f32"}).ok());
  EXPECT_EQ(MakeDevice({"reference", 1, nullptr, "q8"}).status().message(),
            "the reference device computes exactly: activations q8 are for the device cpu");
  EXPECT_EQ(MakeDevice({"cpu", 1, nullptr, "q4"}).status().message(), "unknown activations \"q4\"; known: f32, q8");
}

}  // namespace
}  // namespace estream
