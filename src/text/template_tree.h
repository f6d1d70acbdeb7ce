// SPDX-License-Identifier: Apache-2.0
// A parsed template: statements and expressions as plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template_value.h"

namespace estream {

struct TemplateExpr;
using TemplateExprPtr = std::unique_ptr<const TemplateExpr>;

struct TemplateExpr {
  enum class Kind : uint8_t {
    kLiteral,      // literal
    kName,         // name
    kMember,       // parts[0].name
    kIndex,        // parts[0][parts[1]]
    kSlice,        // parts[0][parts[1]:parts[2]:parts[3]], null where left out
    kCall,         // name(parts..., named...)
    kMethod,       // parts[0].name(parts[1]..., named...)
    kFilter,       // parts[0] | name(parts[1]..., named...)
    kTest,         // parts[0] is name
    kNot,          // not parts[0]
    kNegate,       // -parts[0]
    kAnd,          // parts[0] and parts[1]
    kOr,           // parts[0] or parts[1]
    kBinary,       // parts[0] name parts[1]: an operator
    kConditional,  // parts[1] if parts[0] else parts[2], which may be null
  };
  Kind kind = Kind::kLiteral;
  uint32_t line = 1;
  uint32_t depth = 1;  // of the tree below, this included
  std::string name;
  TemplateValue literal;
  std::vector<TemplateExprPtr> parts;
  std::vector<std::pair<std::string, TemplateExprPtr>> named;
};

struct TemplateStatement;
using TemplateBody = std::vector<TemplateStatement>;

struct TemplateStatement {
  enum class Kind : uint8_t {
    kText,    // literal
    kOutput,  // {{ expr }}
    kSet,     // {% set name = expr %}, or name.member = expr
    kFor,     // {% for name in expr %} bodies[0]
    kIf,      // conditions[i] holds first: bodies[i]; none: the last body, when there is one more
  };
  Kind kind = Kind::kText;
  uint32_t line = 1;
  TemplateValue literal;
  std::string name, member;
  TemplateExprPtr expr;
  std::vector<TemplateExprPtr> conditions;
  std::vector<TemplateBody> bodies;
};

}  // namespace estream
