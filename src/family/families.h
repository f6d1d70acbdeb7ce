// SPDX-License-Identifier: Apache-2.0
// One planning function a family; family.cc lists them.
#pragma once

#include "estream/status.h"
#include "family/plan_builder.h"

namespace estream {

// Each plans a file of its architecture (keys and tensor names: GGUF; rules: the model's card and code).
// Errors: as PlanModel.
Result<ModelPlan> PlanOlmoe(const PlanBuilder& build);
Result<ModelPlan> PlanQwen3Moe(const PlanBuilder& build);
Result<ModelPlan> PlanMixtral(const PlanBuilder& build);
Result<ModelPlan> PlanLfm2Moe(const PlanBuilder& build);
Result<ModelPlan> PlanDeepseek2(const PlanBuilder& build);

}  // namespace estream
