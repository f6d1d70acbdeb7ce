// SPDX-License-Identifier: Apache-2.0
// From the name of a record to which one of the model it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "family/model_plan.h"

namespace estream {

enum class RecordKind { kBlock, kExpert, kFinalNorm, kHead };

struct RecordId {
  RecordKind kind = RecordKind::kBlock;
  uint32_t layer = 0;   // kBlock, kExpert
  uint32_t expert = 0;  // kExpert: the index in the source

  bool operator==(const RecordId&) const = default;
};

// "blk.3", "blk.3.expert.17", "output_norm", "output"; nothing for a name that `plan` has no record of.
std::optional<RecordId> FindRecord(const ModelPlan& plan, std::string_view name);

}  // namespace estream
