// SPDX-License-Identifier: Apache-2.0
// Every record's name leads back to it, and no other name does.
#include "pack/record_name.h"

#include <gtest/gtest.h>

#include "family/family.h"
#include "tests/pack_rig.h"

namespace estream {
namespace {

TEST(RecordName, EveryRecordIsFoundByItsName) {
  const Gguf file = Gguf::Open(ModelPath("olmoe-m-q4_0")).value();
  const ModelPlan plan = PlanModel(file).value();
  EXPECT_EQ(FindRecord(plan, plan.final_record.name), (RecordId{RecordKind::kFinalNorm, 0, 0}));
  EXPECT_EQ(FindRecord(plan, plan.head_record.name), (RecordId{RecordKind::kHead, 0, 0}));
  for (uint32_t l = 0; l < plan.layers.size(); ++l) {
    EXPECT_EQ(FindRecord(plan, plan.layers[l].block.name), (RecordId{RecordKind::kBlock, l, 0}));
    for (uint32_t e = 0; e < plan.experts; ++e) {
      EXPECT_EQ(FindRecord(plan, ExpertRecord(plan, l, e).name), (RecordId{RecordKind::kExpert, l, e}));
    }
  }
}

TEST(RecordName, OtherNamesAreNone) {
  const Gguf file = Gguf::Open(ModelPath("olmoe-m-q4_0")).value();
  const ModelPlan plan = PlanModel(file).value();  // 2 layers, 4 experts
  for (const char* name : {"",
                           "blk",
                           "blk.",
                           "blk.2",
                           "blk.x",
                           "blk.-1",
                           "blk.+1",
                           "blk.01",
                           "blk.0.",
                           "blk.0.expert",
                           "blk.0.expert.",
                           "blk.0.expert.4",
                           "blk.0.expert.00",
                           "blk.0.expert.1 ",
                           "blk.2.expert.0",
                           "blk.4294967296",
                           "output_norm.weight",
                           "outputs",
                           "embedding",
                           "blk.0.experts",
                           " blk.0"}) {
    EXPECT_FALSE(FindRecord(plan, name).has_value()) << name;
  }
}

}  // namespace
}  // namespace estream
