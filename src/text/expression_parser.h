// SPDX-License-Identifier: Apache-2.0
// The tokens of a template as a cursor, and parsing the expressions in its tags with Jinja's precedences.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "text/template_lexer.h"
#include "text/template_tree.h"

namespace estream {

// Where a parser stands, and what it says about that place.
class TemplateCursor {
 public:
  // Pre: `tokens` ends with kEnd; both outlive this.
  TemplateCursor(const std::vector<TemplateToken>& tokens, std::string_view name) : tokens_(tokens), name_(name) {}

  using Kind = TemplateToken::Kind;

  const TemplateToken& Peek() const { return tokens_[at_]; }
  bool At(Kind kind) const { return Peek().kind == kind; }
  bool At(Kind kind, std::string_view text) const { return At(kind) && Peek().text == text; }
  bool AtName(std::string_view text) const { return At(Kind::kName, text); }
  bool AtOperator(std::string_view text) const { return At(Kind::kOperator, text); }
  // kEnd stays where it is.
  void Next() { at_ += At(Kind::kEnd) ? 0 : 1; }
  // Moves on if the operator is there.
  bool Take(std::string_view op);

  // Moves past what must be there. Errors: Corrupt.
  Status Expect(Kind kind, std::string_view text, std::string_view where);
  // The same for a name, which is given to `name`.
  Status ExpectName(std::string_view where, std::string* name);

  Status Unexpected(std::string_view where) const;            // Corrupt
  Status Unsupported(std::string_view what) const;            // "line 7: WHAT is not supported"
  Status TooDeep(std::string_view what, uint32_t max) const;  // Unsupported

 private:
  const std::vector<TemplateToken>& tokens_;
  const std::string_view name_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TemplateCursor* cursor) : cursor_(*cursor) {}

  // The whole expression: x if y else z and all that binds tighter.
  Result<TemplateExprPtr> Conditional();
  // One in which `if` would mean something else.
  Result<TemplateExprPtr> Or();

 private:
  using Kind = TemplateExpr::Kind;
  class Nesting;

  Result<TemplateExprPtr> Make(Kind kind, uint32_t line, std::string name, std::vector<TemplateExprPtr> parts) const;
  Result<TemplateExprPtr> Finish(std::unique_ptr<TemplateExpr> expr) const;

  Result<TemplateExprPtr> And();
  Result<TemplateExprPtr> Not();
  Result<TemplateExprPtr> Compare();
  Result<TemplateExprPtr> Binary(size_t level);
  Result<TemplateExprPtr> Unary(bool with_filters);
  Result<TemplateExprPtr> Primary();
  Result<TemplateExprPtr> Named();
  Result<TemplateExprPtr> Postfix(TemplateExprPtr expr);
  Result<TemplateExprPtr> Subscript(TemplateExprPtr expr);
  Result<TemplateExprPtr> Filters(TemplateExprPtr expr);
  Status Arguments(TemplateExpr* call);

  TemplateCursor& cursor_;
  uint32_t nesting_ = 0;
};

}  // namespace estream
