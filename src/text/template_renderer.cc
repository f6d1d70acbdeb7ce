// SPDX-License-Identifier: Apache-2.0
// Statements, scopes and limits. Each round of a loop is a scope of its own, as in Jinja: what is set there is gone
// with it, and namespaces are the way around.
#include "text/template_renderer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"
#include "format/quote.h"
#include "text/template_lexer.h"

namespace estream {
namespace {

constexpr size_t kMaxSpelledBytes = 40;  // leaves room for the other parts of a message below 300
constexpr uint64_t kStepsOfRound = 10;   // making `loop` takes about as long as ten expressions

// `expr` as its template writes it, near enough.
std::string Spelled(const TemplateExpr& expr) {
  using Kind = TemplateExpr::Kind;
  if (expr.kind == Kind::kName) return expr.name;
  if (expr.kind == Kind::kMember) return Spelled(*expr.parts[0]) + "." + expr.name;
  if (expr.kind == Kind::kIndex) return Spelled(*expr.parts[0]) + "[...]";
  return "(...)";
}

}  // namespace

TemplateRenderer::TemplateRenderer(std::string_view name, TemplateMap variables, const TemplateLimits& limits)
    : name_(name), steps_left_(limits.steps), bytes_left_(limits.bytes) {
  variable_count_ = variables.size();
  frames_.push_back(std::move(variables));
}

std::string TemplateRenderer::TooManyMembers() {
  return fmt::format("a namespace of more than {} members", kMaxMembers);
}

std::string TemplateRenderer::NameOf(const Value::Undefined& undefined) {
  if (undefined.source == nullptr) return "a value";
  const std::string spelled = Spelled(*undefined.source);
  return Quoted(spelled.size() <= kMaxSpelledBytes ? spelled : spelled.substr(0, kMaxSpelledBytes) + "...");
}

Status TemplateRenderer::Error(const Expr& at, std::string_view what) const {
  return TemplateError(StatusCode::kInvalidArgument, name_, at.line, what);
}

Status TemplateRenderer::Unsupported(const Expr& at, std::string_view what) const {
  return TemplateError(StatusCode::kUnsupported, name_, at.line, fmt::format("{} is not supported", what));
}

Status TemplateRenderer::Step(uint32_t line, uint64_t steps) {
  if (steps > steps_left_) {
    return TemplateError(StatusCode::kUnsupported, name_, line, "the template takes too many steps for these messages");
  }
  steps_left_ -= steps;
  return Status::Ok();
}

Status TemplateRenderer::Charge(uint32_t line, uint64_t bytes) {
  if (bytes > bytes_left_) {
    return TemplateError(StatusCode::kUnsupported, name_, line,
                         "the template makes far more text of these messages than they hold");
  }
  bytes_left_ -= bytes;
  return Status::Ok();
}

Result<MarkedText> TemplateRenderer::Render(const TemplateBody& body) {
  ES_RETURN_IF_ERROR(Run(body));
  return std::move(out_);
}

Status TemplateRenderer::Run(const TemplateBody& body) {
  for (const TemplateStatement& statement : body) ES_RETURN_IF_ERROR(Run(statement));
  return Status::Ok();
}

Status TemplateRenderer::Run(const TemplateStatement& statement) {
  using Kind = TemplateStatement::Kind;
  ES_RETURN_IF_ERROR(Step(statement.line));
  switch (statement.kind) {
    case Kind::kText:
      ES_RETURN_IF_ERROR(Charge(statement.line, statement.literal.text()->size()));
      out_.Append(*statement.literal.text());
      return Status::Ok();
    case Kind::kOutput: {
      ES_ASSIGN_OR_RETURN(const Value value, Eval(*statement.expr));
      ES_ASSIGN_OR_RETURN(const MarkedText printed, Printed(*statement.expr, value));
      out_.Append(printed);
      return Status::Ok();
    }
    case Kind::kSet:
      return Set(statement);
    case Kind::kFor:
      return RunFor(statement);
    case Kind::kIf:
      return RunIf(statement);
  }
  return Status::Ok();
}

Status TemplateRenderer::RunIf(const TemplateStatement& statement) {
  for (size_t i = 0; i < statement.conditions.size(); ++i) {
    ES_ASSIGN_OR_RETURN(const Value condition, Eval(*statement.conditions[i]));
    if (condition.IsTrue()) return Run(statement.bodies[i]);
  }
  if (statement.bodies.size() > statement.conditions.size()) return Run(statement.bodies.back());
  return Status::Ok();
}

Status TemplateRenderer::RunFor(const TemplateStatement& statement) {
  ES_ASSIGN_OR_RETURN(const Value items, Eval(*statement.expr));
  if (items.is_undefined()) return Status::Ok();
  const TemplateList* list = items.list();
  if (list == nullptr) return Unsupported(*statement.expr, fmt::format("a loop over {}", items.KindName()));
  const auto size = static_cast<int64_t>(list->size());
  for (int64_t i = 0; i < size; ++i) {
    ES_RETURN_IF_ERROR(Step(statement.line, kStepsOfRound));
    TemplateMap loop = {{"index", Value(i + 1)},           {"index0", Value(i)},    {"first", Value(i == 0)},
                        {"last", Value(i + 1 == size)},    {"length", Value(size)}, {"revindex", Value(size - i)},
                        {"revindex0", Value(size - i - 1)}};
    if (i > 0) loop.emplace_back("previtem", (*list)[i - 1]);
    if (i + 1 < size) loop.emplace_back("nextitem", (*list)[i + 1]);
    TemplateMap& frame = frames_.emplace_back();
    frame.emplace_back(statement.name, (*list)[i]);
    frame.emplace_back("loop", Value(std::move(loop)));
    variable_count_ += frame.size();
    ES_RETURN_IF_ERROR(Run(statement.bodies[0]));
    variable_count_ -= frames_.back().size();
    frames_.pop_back();
  }
  return Status::Ok();
}

Status TemplateRenderer::Set(const TemplateStatement& statement) {
  ES_ASSIGN_OR_RETURN(Value value, Eval(*statement.expr));
  if (statement.member.empty()) {
    Assign(statement.name, std::move(value));
    return Status::Ok();
  }
  const Value* variable = FindVariable(statement.name);
  TemplateMap* members = variable == nullptr ? nullptr : variable->names();
  if (members == nullptr) return Error(*statement.expr, fmt::format("{} is not a namespace", Quoted(statement.name)));
  if (value.names() != nullptr) return Unsupported(*statement.expr, "a namespace inside a namespace");
  const auto same = [&](const auto& member) { return member.first == statement.member; };
  const auto found = std::find_if(members->begin(), members->end(), same);
  if (found != members->end()) {
    found->second = std::move(value);
  } else if (members->size() == kMaxMembers) {
    return Unsupported(*statement.expr, TooManyMembers());
  } else {
    members->emplace_back(statement.member, std::move(value));
  }
  return Status::Ok();
}

void TemplateRenderer::Assign(std::string_view name, Value value) {
  TemplateMap& frame = frames_.back();
  const auto found = std::find_if(frame.begin(), frame.end(), [&](const auto& member) { return member.first == name; });
  if (found != frame.end()) {
    found->second = std::move(value);
  } else {
    frame.emplace_back(name, std::move(value));
    ++variable_count_;
  }
}

const TemplateValue* TemplateRenderer::FindVariable(std::string_view name) const {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    if (const Value* value = FindMember(*frame, name)) return value;
  }
  return nullptr;
}

}  // namespace estream
