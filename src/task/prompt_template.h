// SPDX-License-Identifier: Apache-2.0
// A prompt with one gap: "Message: {text}\nSpam:".
#pragma once

#include <string>
#include <string_view>

#include "estream/status.h"

namespace estream {

class PromptTemplate {
 public:
  static constexpr std::string_view kGap = "{text}";

  // Errors: InvalidArgument unless `source` holds {text} exactly once.
  static Result<PromptTemplate> Parse(std::string_view source);

  // The prompt for `text`. A "{text}" inside the text itself is left alone.
  std::string Fill(std::string_view text) const;

 private:
  std::string before_;
  std::string after_;
};

}  // namespace estream
