// SPDX-License-Identifier: Apache-2.0
// Order files: what is taken, and what is said about the others.
#include "pack/expert_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "family/family.h"
#include "tests/pack_rig.h"

namespace estream {
namespace {

// A plan of 2 layers with 4 experts each.
ModelPlan Plan() { return PlanModel(Gguf::Open(ModelPath("olmoe-m-q4_0")).value()).value(); }

TEST(ExpertOrder, OneLineALayer) {
  ModelPlan plan = Plan();
  const Status status = ParseExpertOrder("# hottest first\n3 1,0\t2  # layer 0\n\n  \n0;2;1;3\r\n", "order.txt", &plan);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(plan.layers[0].expert_order, (std::vector<uint32_t>{3, 1, 0, 2}));
  EXPECT_EQ(plan.layers[1].expert_order, (std::vector<uint32_t>{0, 2, 1, 3}));
  EXPECT_EQ(ExpertRecord(plan, 0, 0).name, "blk.0.expert.3");
  EXPECT_EQ(ExpertRecord(plan, 0, 3).name, "blk.0.expert.2");
}

TEST(ExpertOrder, TheSourcesOrderIsNoOrder) {
  ModelPlan plan = Plan();
  ASSERT_TRUE(ParseExpertOrder("0 1 2 3\n0 1 2 3", "order.txt", &plan).ok());
  EXPECT_TRUE(plan.layers[0].expert_order.empty());
  EXPECT_TRUE(plan.layers[1].expert_order.empty());
}

TEST(ExpertOrder, MistakesAreNamed) {
  struct Case {
    const char* text;
    const char* expected;
  };
  for (const Case& c : {Case{"0 1 2\n0 1 2 3", "order.txt: line 1 has 3 indices, expected 4"},
                        Case{"0 1 2 3 4\n0 1 2 3", "order.txt: line 1 has 5 indices, expected 4"},
                        Case{"0 1 2 3\n0 1 1 3", "order.txt: line 2 holds 1 twice"},
                        Case{"#\n0 1 2 4\n0 1 2 3", "order.txt: line 2 holds 4, expected 0..3"},
                        Case{"0 1 2 x\n", "order.txt: line 1 holds \"x\", expected indices of experts"},
                        Case{"0 1 2 -1\n", "order.txt: line 1 holds \"-1\", expected indices of experts"},
                        Case{"0 1 2 99999999999\n", "order.txt: line 1 holds \"99999999999\""},
                        Case{"0 1 2 3\n", "order.txt: orders 1 layers, the model has 2 with experts"},
                        Case{"", "order.txt: orders 0 layers, the model has 2 with experts"},
                        Case{"0 1 2 3\n0 1 2 3\n0 1 2 3", "order.txt: line 3 is one too many for 2 layers"}}) {
    ModelPlan plan = Plan();
    const Status status = ParseExpertOrder(c.text, "order.txt", &plan);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_EQ(status.message().rfind(c.expected, 0), 0u) << status.message();
  }
}

TEST(ExpertOrder, AMissingFileIsNamed) {
  ModelPlan plan = Plan();
  EXPECT_EQ(LoadExpertOrder("/nowhere/order.txt", &plan).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace estream
