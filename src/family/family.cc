// SPDX-License-Identifier: Apache-2.0
// The table of families. A new one is a file beside this and a row here.
#include "family/family.h"

#include <fmt/format.h>

#include "base/macros.h"
#include "family/families.h"
#include "family/plan_builder.h"

namespace estream {
namespace {

struct Family {
  const char* architecture;  // general.architecture
  Result<ModelPlan> (*plan)(const PlanBuilder& build);
};

constexpr Family kFamilies[] = {
    {"olmoe", PlanOlmoe},     {"qwen3moe", PlanQwen3Moe},   {"llama", PlanMixtral},
    {"lfm2moe", PlanLfm2Moe}, {"deepseek2", PlanDeepseek2},
};

}  // namespace

std::string KnownArchitectures() {
  std::string names;
  for (const Family& f : kFamilies) names += fmt::format("{}{}", names.empty() ? "" : ", ", f.architecture);
  return names;
}

Result<ModelPlan> PlanModel(const Gguf& file, std::string_view architecture, std::span<const GgufTensor> tensors) {
  for (const Family& f : kFamilies) {
    if (architecture == f.architecture) return f.plan(PlanBuilder(file, architecture, tensors));
  }
  const std::string_view name = architecture.substr(0, 40);
  if (file.Find(fmt::format("{}.expert_count", architecture)) == nullptr) {
    return Status::Unsupported(
        fmt::format("{}: architecture \"{}\" without experts; EStream runs Mixture-of-Experts models (known: {})",
                    file.path(), name, KnownArchitectures()));
  }
  return Status::Unsupported(
      fmt::format("{}: architecture \"{}\" is not supported (known: {})", file.path(), name, KnownArchitectures()));
}

Result<ModelPlan> PlanModel(const Gguf& file) {
  ES_ASSIGN_OR_RETURN(const std::string_view architecture, file.String("general.architecture"));
  return PlanModel(file, architecture, file.tensors());
}

}  // namespace estream
