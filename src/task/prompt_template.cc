// SPDX-License-Identifier: Apache-2.0
// Splitting at the gap.
#include "task/prompt_template.h"

namespace estream {

Result<PromptTemplate> PromptTemplate::Parse(std::string_view source) {
  const size_t gap = source.find(kGap);
  if (gap == std::string_view::npos) {
    return Status::InvalidArgument("the template has no {text}, where each text would go");
  }
  const std::string_view after = source.substr(gap + kGap.size());
  if (after.find(kGap) != std::string_view::npos) {
    return Status::InvalidArgument("the template has more than one {text}; one is expected");
  }
  PromptTemplate result;
  result.before_ = source.substr(0, gap);
  result.after_ = after;
  return result;
}

std::string PromptTemplate::Fill(std::string_view text) const {
  std::string prompt;
  prompt.reserve(before_.size() + text.size() + after_.size());
  prompt.append(before_).append(text).append(after_);
  return prompt;
}

}  // namespace estream
