// SPDX-License-Identifier: Apache-2.0
// OLMoE: MHA with RMS norms of q and k over the full width, NeoX rotation; softmax router without renormalisation.
#pragma once

#include "estream/status.h"
#include "family/plan_builder.h"

namespace estream {

// Plans an `olmoe` file (model card: OLMoE-1B-7B; keys and names: GGUF). Errors: as PlanModel.
Result<ModelPlan> PlanOlmoe(const PlanBuilder& build);

}  // namespace estream
