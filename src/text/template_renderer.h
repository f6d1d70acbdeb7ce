// SPDX-License-Identifier: Apache-2.0
// Running a parsed chat template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estream/status.h"
#include "text/template_tree.h"

namespace estream {

// What a template may spend. Every expression and statement that is evaluated is a step, so that loops end; every byte
// that is copied, compared or searched counts, so that memory and time are bounded whatever a template does.
struct TemplateLimits {
  uint64_t steps = 0;
  uint64_t bytes = 0;
};

class TemplateRenderer {
 public:
  // `name` is what errors call the template; `variables` are what it sees. Both outlive this.
  TemplateRenderer(std::string_view name, TemplateMap variables, const TemplateLimits& limits);

  // Errors: InvalidArgument with what raise_exception was given, for operands that do not fit, undefined values that
  //         are used; Unsupported for functions, methods, filters and tests that are unknown, and beyond the limits.
  Result<MarkedText> Render(const TemplateBody& body);

 private:
  using Value = TemplateValue;
  using Values = std::vector<Value>;
  using Expr = TemplateExpr;
  using Named = std::vector<std::pair<std::string, Value>>;

  static constexpr size_t kMaxMembers = 100;  // of a namespace; looking one up goes through all
  static std::string TooManyMembers();
  // The expression that gave an undefined value, for messages.
  static std::string NameOf(const Value::Undefined& undefined);

  Status Error(const Expr& at, std::string_view what) const;
  Status Unsupported(const Expr& at, std::string_view what) const;
  Status Step(uint32_t line, uint64_t steps = 1);
  Status Charge(uint32_t line, uint64_t bytes);

  // Statements.
  Status Run(const TemplateBody& body);
  Status Run(const TemplateStatement& statement);
  Status RunIf(const TemplateStatement& statement);
  Status RunFor(const TemplateStatement& statement);
  Status Set(const TemplateStatement& statement);
  void Assign(std::string_view name, Value value);
  const Value* FindVariable(std::string_view name) const;

  // Expressions.
  Result<Value> Eval(const Expr& expr);
  Result<Value> Member(const Expr& expr);
  Result<Value> Index(const Expr& expr);
  Result<Value> Slice(const Expr& expr);
  Result<Value> Conditional(const Expr& expr);
  Result<Value> Binary(const Expr& expr);
  Result<Value> Join(const Expr& expr, const Value& left, const Value& right);
  Result<Value> Arithmetic(const Expr& expr, int64_t left, int64_t right) const;
  Result<bool> Equal(const Expr& expr, const Value& left, const Value& right);
  Result<bool> Contains(const Expr& expr, const Value& part, const Value& whole);
  Result<MarkedText> Printed(const Expr& expr, const Value& value);

  // Calls, by name.
  Result<Value> Call(const Expr& expr);
  Result<Value> Method(const Expr& expr);
  Result<Value> Filter(const Expr& expr);
  Result<Value> Test(const Expr& expr);
  Result<Value> MakeNamespace(const Expr& expr);
  Status EvalArguments(const Expr& expr, size_t first, size_t max, std::string_view what, Values* arguments);
  Result<const MarkedText*> TextArgument(const Expr& expr, const Value& value) const;

  const std::string_view name_;
  uint64_t steps_left_, bytes_left_;
  std::vector<TemplateMap> frames_;  // variables, innermost scope last
  size_t variable_count_ = 0;        // in all frames
  MarkedText out_;
};

}  // namespace estream
