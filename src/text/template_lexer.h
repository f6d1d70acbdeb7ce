// SPDX-License-Identifier: Apache-2.0
// Cutting a Jinja template into tokens: text between tags, with its blanks controlled, and what tags are made of.
//
// Blanks follow the settings that chat templates are written for: a newline right after a block or comment tag is
// dropped (trim_blocks), blanks in front of one on its line too (lstrip_blocks), "-" strips everything blank on its
// side, "+" keeps everything; one newline at the template's end is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"

namespace estream {

struct TemplateToken {
  enum class Kind : uint8_t {
    kText,         // between tags; never empty
    kBlockBegin,   // {%
    kBlockEnd,     // %}
    kOutputBegin,  // {{
    kOutputEnd,    // }}
    kName,         // for, messages
    kString,       // its value, escapes resolved
    kNumber,       // its digits
    kOperator,     // == != <= >= // ** and single characters
    kEnd,          // of the template
  };
  Kind kind = Kind::kEnd;
  uint32_t line = 1;
  std::string text;
};

// What is wrong with a template at a line, in one sentence: "NAME: line 7: ...".
Status TemplateError(StatusCode code, std::string_view name, uint32_t line, std::string_view what);

// The tokens of `source`, kEnd last; `name` is what errors call it.
//
// Errors: Corrupt for a tag, comment or string that is not closed, a bad escape, a stray character; Unsupported for
//         numbers with a fraction.
Result<std::vector<TemplateToken>> TokenizeTemplate(std::string_view source, std::string_view name);

}  // namespace estream
