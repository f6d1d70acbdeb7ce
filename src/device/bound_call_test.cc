// SPDX-License-Identifier: Apache-2.0
// Every way in which a call or a spec can be wrong is refused with one sentence and writes nothing.
#include "device/bound_call.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "device/spec_check.h"
#include "tests/device_cases.h"

namespace estream {
namespace {

void ExpectRefused(const Status& status, const std::string& part, StatusCode code = StatusCode::kInvalidArgument) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message() << "\nexpected: " << part;
  EXPECT_LT(status.message().size(), 300u);
}

template <class Call>
struct Fault {
  const char* expected;  // part of the message
  std::function<void(Call*)> change;
};

// A device with buffers for one small call of each kind.
class BoundCall : public testing::Test {
 protected:
  static constexpr uint32_t kTokens = 10;
  static constexpr uint32_t kHidden = 64;

  BoundCall() : cpu_("cpu", 2), random_(1) {}

  DeviceBuffer Floats(size_t count) { return cpu_.Upload(std::vector<float>(count)); }

  // A call of `c` that works.
  BlockInvocation Prepare(const BlockCase& c) {
    BlockInvocation call = c.call;
    call.graph = cpu_.Build(c.spec, {kTokens, 0});
    call.weights = cpu_.Upload(c.record).ref();
    call.in = cpu_.Upload(c.in).ref();
    call.out = Floats(c.out_count).ref();
    if (c.route_count > 0) call.routes = cpu_.Upload(std::vector<Route>(c.route_count)).ref();
    const Status status = cpu_.Run(call);
    EXPECT_TRUE(status.ok()) << status.message();
    return call;
  }

  template <class Call>
  void ExpectFaults(const Call& good, const std::vector<Fault<Call>>& faults) {
    for (const Fault<Call>& fault : faults) {
      SCOPED_TRACE(fault.expected);
      Call call = good;
      fault.change(&call);
      ExpectRefused(cpu_.Run(call), fault.expected);
    }
    EXPECT_TRUE(cpu_.Run(good).ok());
  }

  DeviceRig cpu_;
  Random random_;
};

TEST_F(BoundCall, BlockCallsAreChecked) {
  const BlockInvocation good = Prepare(MakeRouterCase({kTokens, kHidden, 8, 2}, random_));
  using C = BlockInvocation;
  ExpectFaults<C>(good, {{"graph 99 is not a block graph", [](C* c) { c->graph = 99; }},
                         {"the graph was built for 10", [](C* c) { c->rows = 11; }},
                         {"the graph was built for 10", [](C* c) { c->tokens = 11; }},
                         {"weights: there is no device buffer 0", [](C* c) { c->weights = {}; }},
                         {"weights: ", [](C* c) { c->weights.offset = 4096; }},
                         {"in at offset 2, which is no multiple of 4", [](C* c) { c->in.offset = 2; }},
                         {"in: ", [](C* c) { c->in.offset = 4; }},
                         {"out: ", [](C* c) { c->out.offset = ~uint64_t{3}; }},
                         {"in and out overlap", [](C* c) { c->out = c->in; }},
                         {"routes: there is no device buffer 77", [](C* c) { c->routes.buffer = 77; }}});
}

TEST_F(BoundCall, RowIdsAreChecked) {
  BlockCase attention = MakeAttentionCase({kTokens, kHidden, 2, 2, 16, 16}, random_);
  BlockInvocation good = Prepare(attention);
  good.rows = 2;
  good.row_ids = cpu_.Upload(std::vector<uint32_t>{3, 9, 10, 4}).ref();
  using C = BlockInvocation;
  ExpectFaults<C>(good, {{"2 rows of 10 tokens without row_ids", [](C* c) { c->row_ids = {}; }},
                         {"row_ids[1] is 10 of 10 tokens", [](C* c) { c->row_ids.offset = 4; }},
                         {"row_ids[1] is 9 of 9 tokens", [](C* c) { c->tokens = 9; }},
                         {"row_ids: ", [](C* c) { c->rows = 5; }},
                         {"in and out overlap", [](C* c) { c->out = c->in; }}});
  good.row_ids = cpu_.Upload(std::vector<uint32_t>{9, 3}).ref();
  ExpectRefused(cpu_.Run(good), "row_ids[1] is 3 after 9, expected ascending");
}

TEST_F(BoundCall, ProductsAreChecked) {
  RandomRecord record(random_);
  BlockCase linear;
  linear.spec = LinearSpec{record.Matrix(WeightFormat::kQ8_0, 100, kHidden)};
  linear.record = record.Finish();
  linear.in = random_.Floats(kTokens * kHidden);
  linear.call.tokens = linear.call.rows = kTokens;
  linear.call.row_count = linear.call.out_stride = 36;
  linear.call.first_row = 64;
  linear.out_count = kTokens * 36;
  using C = BlockInvocation;
  ExpectFaults<C>(Prepare(linear), {{"matrix rows 65 to 101", [](C* c) { c->first_row = 65; }},
                                    {"matrix rows 64 to 101", [](C* c) { c->row_count = 37; }},
                                    {"matrix rows 4294967264 to 4294967300", [](C* c) { c->first_row = 0xFFFFFFE0u; }},
                                    {"out_stride 35 for 36 values", [](C* c) { c->out_stride = 35; }},
                                    {"out: ", [](C* c) { c->out_stride = 37; }}});
}

TEST_F(BoundCall, CallsWithoutRowsDoNothing) {
  BlockInvocation call;
  call.graph = cpu_.Build(BlockSpec(MakeRouterCase({1, kHidden, 8, 2}, random_).spec), {kTokens, 0});
  EXPECT_TRUE(cpu_.Run(call).ok());
}

TEST_F(BoundCall, ExpertCallsAreCheckedBeforeAnythingIsWritten) {
  const ExpertCase c = MakeExpertCase({kHidden, 32, 4}, kTokens, random_);
  const std::vector<Route> routes = {{0, 0, 1}, {3, 9, 1}, {1, 10, 1}, {4, 0, 1}, {2, 0, 1}};  // 2..4 are wrong
  std::vector<int32_t> placement = c.placement;
  placement[2] = kNoSlot;
  const DeviceBuffer y = cpu_.Upload(c.y);
  ExpertInvocation good;
  good.graph = cpu_.Build(c.spec, {kTokens, 5});
  good.tokens = kTokens;
  good.expert_count = 4;
  good.slot_count = c.slot_count;
  good.slot_stride = c.spec.record_bytes;
  good.x = cpu_.Upload(c.x).ref();
  good.y = y.ref();
  good.routes = cpu_.Upload(routes).ref();
  good.placement = cpu_.Upload(placement).ref();
  good.arena = cpu_.Upload(c.arena).ref();
  using C = ExpertInvocation;
  const auto only = [](uint32_t i) { return [i](C* x) { x->routes.offset = i * sizeof(Route), x->route_count = 1; }; };
  const std::vector<Fault<C>> faults = {
      {"graph 12 is not an expert graph", [](C* x) { x->graph = 12; }},
      {"11 tokens and 0 routes in one call", [](C* x) { x->tokens = 11; }},
      {"10 tokens and 6 routes in one call", [](C* x) { x->route_count = 6; }},
      {"route 0 names token 10 of 10", only(2)},
      {"route 0 names expert 4 of 4", only(3)},
      {"route 0 names expert 2, which is in slot -1 of 5", only(4)},
      {"route 2 names token 10 of 10", [](C* x) { x->route_count = 3; }},
      {"route 0 names expert 0, which is in slot 4 of 4", [](C* x) { x->route_count = 1, x->slot_count = 4; }},
      {"placement: ", [](C* x) { x->route_count = 1, x->expert_count = 5; }},
      {"x and y overlap", [](C* x) { x->route_count = 1, x->y = x->x; }},
      {"slots 4095 bytes apart", [](C* x) { x->route_count = 1, x->slot_stride = 4095; }},
      {"arena: ", [](C* x) { x->route_count = 1, x->slot_count = 6; }},
      {"slots of 18446744073709551612 bytes", [](C* x) { x->route_count = 1, x->slot_stride = ~uint64_t{3}; }},
  };
  ExpectFaults<C>(good, faults);
  EXPECT_TRUE(std::equal(c.y.begin(), c.y.end(), y.as<float>()));
  good.route_count = 2;
  EXPECT_TRUE(cpu_.Run(good).ok());
  EXPECT_FALSE(std::equal(c.y.begin(), c.y.end(), y.as<float>()));
}

template <class Spec>
void ExpectSpecFaults(const Spec& good, const std::vector<Fault<Spec>>& faults) {
  EXPECT_TRUE(CheckSpec(good, {}).ok());
  for (const Fault<Spec>& fault : faults) {
    Spec spec = good;
    fault.change(&spec);
    const Status status = CheckSpec(spec, {});
    ExpectRefused(status, fault.expected, status.code());
    EXPECT_FALSE(status.ok());
  }
}

TEST(SpecCheck, AttentionShapesMustFitTogether) {
  Random random(2);
  using S = AttentionSpec;
  ExpectSpecFaults<S>(
      std::get<S>(MakeAttentionCase({1, 64, 4, 2, 16, 16, RopeStyle::kHalves, QkNorm::kPerHead}, random).spec),
      {{"hidden is 0", [](S* s) { s->hidden = 0; }},
       {"heads is 0", [](S* s) { s->heads = 0; }},
       {"kv_heads is 0", [](S* s) { s->kv_heads = 0; }},
       {"4 heads cannot share 3 kv_heads", [](S* s) { s->kv_heads = 3; }},
       {"rope.dims is 7", [](S* s) { s->rope.dims = 7; }},
       {"rope.dims is 18", [](S* s) { s->rope.dims = 18; }},
       {"the q matrix is [64, 64], expected [128, 64]",
        [](S* s) { s->head_dim = 32, s->q_norm.count = s->k_norm.count = 32; }},
       {"q_norm has 15 values, expected 16", [](S* s) { s->q_norm.count = 15; }},
       {"k_norm has 16 values, expected 32", [](S* s) { s->qk_norm = QkNorm::kFull, s->q_norm.count = 64; }},
       {"norm at offset 2", [](S* s) { s->norm.offset = 2; }},
       {"v at offset 18446744073709551612", [](S* s) { s->v.offset = ~uint64_t{3}; }},
       {"unknown qk_norm 9", [](S* s) { s->qk_norm = static_cast<QkNorm>(9); }}});
}

TEST(SpecCheck, OtherShapesMustFitTogether) {
  Random random(3);
  using R = RouterSpec;
  ExpectSpecFaults<R>(std::get<R>(MakeRouterCase({1, 64, 8, 2, Gating::kSigmoid, 1, true}, random).spec),
                      {{"top_k is 0", [](R* s) { s->top_k = 0; }},
                       {"top_k is 9, expected 1 to 8", [](R* s) { s->top_k = 9; }},
                       {"router has 512 values", [](R* s) { s->experts = 9; }},
                       {"bias has 7 values", [](R* s) { s->bias.count = 7; }}});
  using E = ExpertSpec;
  ExpectSpecFaults<E>(MakeExpertCase({64, 32, 1}, 1, random).spec,
                      {{"the gate matrix is [32, 64]", [](E* s) { s->ffn = 64; }},
                       {"down matrix", [](E* s) { s->down.rows = 65; }},
                       {"of a record of 100 bytes", [](E* s) { s->record_bytes = 100; }},
                       {"cannot be tiled", [](E* s) { s->up.format = WeightFormat::kQ4_K; }}});
  ExpectSpecFaults<EmbeddingSpec>({WeightFormat::kQ4_K, 256},
                                  {{"no whole number of Q4_K blocks", [](EmbeddingSpec* s) { s->hidden = 128; }},
                                   {"at most 16777216", [](EmbeddingSpec* s) { s->hidden = 1u << 30; }}});
  ExpectRefused(CheckSpec(BlockSpec(EmbeddingSpec{WeightFormat::kF32, 64}), {1u << 30, 0}), "a capacity of 1073741824",
                StatusCode::kUnsupported);
}

}  // namespace
}  // namespace estream
