// SPDX-License-Identifier: Apache-2.0
// The profile that a run streams by: found, or measured in a hurry on first use.
#pragma once

#include <memory>

#include "estream/engine.h"
#include "tools/model_flags.h"
#include "tools/outcome.h"

namespace estream {

// Sets options->profile when `model` is a pack whose shape is to be chosen. Without a profile of this machine one is
// measured, for models that are large enough for it to pay, unless --no-tune says otherwise; a failure to measure is no
// failure of the run.
//
// Errors: a broken profile; an interrupt.
Outcome FindProfileForRun(const ModelFlags& flags, const std::shared_ptr<const Model>& model, EngineOptions* options);

// Says on standard error how experts will stream, and in which budget.
Outcome ShowPlan(const std::shared_ptr<const Model>& model, const EngineOptions& options);

// The profile that the flags ask for, without measuring: a note goes to standard error.
Outcome TakeProfile(const Model& model, EngineOptions* options);

}  // namespace estream
