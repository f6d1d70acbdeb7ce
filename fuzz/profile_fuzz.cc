// SPDX-License-Identifier: Apache-2.0
// Any bytes as a profile file: refused in one sentence, or profiles that are written and read again the same and that a
// shape can be chosen from.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/macros.h"
#include "engine/profile_file.h"
#include "pipeline/tuner.h"

namespace estream {
namespace {

void Choose(const TuningProfile& p) {
  StreamedModel model;
  model.experts = p.model.experts;
  model.layers.assign(std::min(p.model.layers, 4u), {4096, 0});
  const WorkloadLength workload[] = {{1, 1}, {p.times.lengths[0].tokens, 1}, {5000, 0.5}};
  TunerOptions options;
  options.fixed.group_size = p.model.experts > 64 ? p.model.experts : 0;
  const auto choice = ChooseShape(p.times, model, workload, options);
  ES_CHECK(choice && CheckShape(options.schedule, choice->best.shape, model.experts).ok());
}

void Run(std::string_view text) {
  const auto profiles = ParseProfiles(text, "input");
  if (!profiles.ok()) {
    const std::string message = profiles.status().message();
    ES_CHECK(!message.empty() && message.size() < 300);
    return;
  }
  const auto again = ParseProfiles(FormatProfiles(*profiles), "input");
  ES_CHECK(again.ok() && *again == *profiles);
  for (const TuningProfile& p : *profiles) Choose(p);
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estream::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
