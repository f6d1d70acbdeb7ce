// SPDX-License-Identifier: Apache-2.0
// Recursive descent, one function for each level of precedence, loosest first.
#include "text/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "base/macros.h"
#include "format/quote.h"
#include "text/template_parser.h"

namespace estream {
namespace {

constexpr std::string_view kReserved[] = {"and", "or", "not", "in", "is", "if", "else"};

TemplateExprPtr Literal(uint32_t line, TemplateValue value) {
  auto expr = std::make_unique<TemplateExpr>();
  expr->line = line;
  expr->literal = std::move(value);
  return expr;
}

std::vector<TemplateExprPtr> Parts(TemplateExprPtr a, TemplateExprPtr b = nullptr) {
  std::vector<TemplateExprPtr> parts;
  parts.push_back(std::move(a));
  if (b) parts.push_back(std::move(b));
  return parts;
}

}  // namespace

bool TemplateCursor::Take(std::string_view op) {
  if (!AtOperator(op)) return false;
  Next();
  return true;
}

Status TemplateCursor::Expect(Kind kind, std::string_view text, std::string_view where) {
  if (!At(kind, text)) return Unexpected(where);
  Next();
  return Status::Ok();
}

Status TemplateCursor::ExpectName(std::string_view where, std::string* name) {
  if (!At(Kind::kName)) return Unexpected(where);
  *name = Peek().text;
  Next();
  return Status::Ok();
}

Status TemplateCursor::Unexpected(std::string_view where) const {
  const bool in_tag = At(Kind::kName) || At(Kind::kString) || At(Kind::kNumber) || At(Kind::kOperator);
  const std::string found = in_tag                                        ? Quoted(Peek().text)
                            : At(Kind::kBlockEnd) || At(Kind::kOutputEnd) ? "the end of the tag"
                                                                          : "the end of the template";
  return TemplateError(StatusCode::kCorrupt, name_, Peek().line, fmt::format("unexpected {} {}", found, where));
}

Status TemplateCursor::Unsupported(std::string_view what) const {
  return TemplateError(StatusCode::kUnsupported, name_, Peek().line, fmt::format("{} is not supported", what));
}

Status TemplateCursor::TooDeep(std::string_view what, uint32_t max) const {
  return TemplateError(StatusCode::kUnsupported, name_, Peek().line,
                       fmt::format("{} nested more than {} deep", what, max));
}

// Counts how deep the parser itself stands, which parentheses, minus signs and the like drive.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(uint32_t* depth) : depth_(*depth) { ++depth_; }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  bool TooDeep() const { return depth_ > kMaxExpressionDepth; }

 private:
  uint32_t& depth_;
};

Result<TemplateExprPtr> ExpressionParser::Make(Kind kind, uint32_t line, std::string name,
                                               std::vector<TemplateExprPtr> parts) const {
  auto expr = std::make_unique<TemplateExpr>();
  expr->kind = kind;
  expr->line = line;
  expr->name = std::move(name);
  expr->parts = std::move(parts);
  return Finish(std::move(expr));
}

// Chains like a + b + c nest to the left without nesting the parser; their depth shows here.
Result<TemplateExprPtr> ExpressionParser::Finish(std::unique_ptr<TemplateExpr> expr) const {
  uint32_t below = 0;
  for (const TemplateExprPtr& part : expr->parts) below = std::max(below, part ? part->depth : 0);
  for (const auto& [name, argument] : expr->named) below = std::max(below, argument->depth);
  expr->depth = below + 1;
  if (expr->depth > kMaxExpressionDepth) return cursor_.TooDeep("an expression is", kMaxExpressionDepth);
  return TemplateExprPtr(std::move(expr));
}

Result<TemplateExprPtr> ExpressionParser::Conditional() {
  const Nesting nesting(&nesting_);
  if (nesting.TooDeep()) return cursor_.TooDeep("an expression is", kMaxExpressionDepth);
  const uint32_t line = cursor_.Peek().line;
  ES_ASSIGN_OR_RETURN(TemplateExprPtr value, Or());
  while (cursor_.AtName("if")) {
    cursor_.Next();
    ES_ASSIGN_OR_RETURN(TemplateExprPtr condition, Or());
    std::vector<TemplateExprPtr> parts = Parts(std::move(condition), std::move(value));
    if (cursor_.AtName("else")) {
      cursor_.Next();
      ES_ASSIGN_OR_RETURN(TemplateExprPtr otherwise, Conditional());
      parts.push_back(std::move(otherwise));
    } else {
      parts.push_back(nullptr);
    }
    ES_ASSIGN_OR_RETURN(value, Make(Kind::kConditional, line, "", std::move(parts)));
  }
  return value;
}

Result<TemplateExprPtr> ExpressionParser::Or() {
  ES_ASSIGN_OR_RETURN(TemplateExprPtr left, And());
  while (cursor_.AtName("or")) {
    const uint32_t line = cursor_.Peek().line;
    cursor_.Next();
    ES_ASSIGN_OR_RETURN(TemplateExprPtr right, And());
    ES_ASSIGN_OR_RETURN(left, Make(Kind::kOr, line, "", Parts(std::move(left), std::move(right))));
  }
  return left;
}

Result<TemplateExprPtr> ExpressionParser::And() {
  ES_ASSIGN_OR_RETURN(TemplateExprPtr left, Not());
  while (cursor_.AtName("and")) {
    const uint32_t line = cursor_.Peek().line;
    cursor_.Next();
    ES_ASSIGN_OR_RETURN(TemplateExprPtr right, Not());
    ES_ASSIGN_OR_RETURN(left, Make(Kind::kAnd, line, "", Parts(std::move(left), std::move(right))));
  }
  return left;
}

Result<TemplateExprPtr> ExpressionParser::Not() {
  if (!cursor_.AtName("not")) return Compare();
  const Nesting nesting(&nesting_);
  if (nesting.TooDeep()) return cursor_.TooDeep("an expression is", kMaxExpressionDepth);
  const uint32_t line = cursor_.Peek().line;
  cursor_.Next();
  ES_ASSIGN_OR_RETURN(TemplateExprPtr operand, Not());
  return Make(Kind::kNot, line, "", Parts(std::move(operand)));
}

Result<TemplateExprPtr> ExpressionParser::Compare() {
  ES_ASSIGN_OR_RETURN(TemplateExprPtr left, Binary(0));
  for (int comparisons = 0;; ++comparisons) {
    const uint32_t line = cursor_.Peek().line;
    const bool is_not = cursor_.AtName("not");  // only "not in" can follow an operand
    const bool is_in = is_not || cursor_.AtName("in");
    constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
    const auto at = [this](std::string_view op) { return cursor_.AtOperator(op); };
    if (!is_in && std::none_of(std::begin(kOperators), std::end(kOperators), at)) return left;
    if (comparisons > 0) return cursor_.Unsupported("a chain of comparisons");
    std::string op = cursor_.Peek().text;
    cursor_.Next();
    if (is_not) ES_RETURN_IF_ERROR(cursor_.Expect(TemplateToken::Kind::kName, "in", "after not"));
    ES_ASSIGN_OR_RETURN(TemplateExprPtr right, Binary(0));
    if (is_in) op = "in";
    ES_ASSIGN_OR_RETURN(left, Make(Kind::kBinary, line, op, Parts(std::move(left), std::move(right))));
    if (!is_not) continue;
    ES_ASSIGN_OR_RETURN(left, Make(Kind::kNot, line, "", Parts(std::move(left))));
  }
}

Result<TemplateExprPtr> ExpressionParser::Binary(size_t level) {
  static constexpr std::string_view kSums[] = {"+", "-"}, kJoins[] = {"~"}, kProducts[] = {"*", "/", "//", "%"};
  static constexpr std::span<const std::string_view> kLevels[] = {kSums, kJoins, kProducts};
  if (level == std::size(kLevels)) return Unary(true);
  ES_ASSIGN_OR_RETURN(TemplateExprPtr left, Binary(level + 1));
  const auto at = [this](std::string_view op) { return cursor_.AtOperator(op); };
  while (std::any_of(kLevels[level].begin(), kLevels[level].end(), at)) {
    const TemplateToken& op = cursor_.Peek();
    cursor_.Next();
    ES_ASSIGN_OR_RETURN(TemplateExprPtr right, Binary(level + 1));
    ES_ASSIGN_OR_RETURN(left, Make(Kind::kBinary, op.line, op.text, Parts(std::move(left), std::move(right))));
  }
  return left;
}

Result<TemplateExprPtr> ExpressionParser::Unary(bool with_filters) {
  const uint32_t line = cursor_.Peek().line;
  TemplateExprPtr expr;
  if (cursor_.Take("-")) {
    const Nesting nesting(&nesting_);
    if (nesting.TooDeep()) return cursor_.TooDeep("an expression is", kMaxExpressionDepth);
    ES_ASSIGN_OR_RETURN(TemplateExprPtr operand, Unary(false));
    ES_ASSIGN_OR_RETURN(expr, Make(Kind::kNegate, line, "", Parts(std::move(operand))));
  } else {
    ES_ASSIGN_OR_RETURN(TemplateExprPtr primary, Primary());
    ES_ASSIGN_OR_RETURN(expr, Postfix(std::move(primary)));
  }
  if (!with_filters) return expr;
  return Filters(std::move(expr));
}

Result<TemplateExprPtr> ExpressionParser::Primary() {
  using TokenKind = TemplateToken::Kind;
  const TemplateToken& token = cursor_.Peek();
  if (token.kind == TokenKind::kName) return Named();
  if (token.kind == TokenKind::kString) {
    MarkedText text;
    for (; cursor_.At(TokenKind::kString); cursor_.Next()) text.Append(cursor_.Peek().text, Origin::kTemplate);
    return Literal(token.line, TemplateValue(std::move(text)));
  }
  if (token.kind == TokenKind::kNumber) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
    if (error != std::errc()) return cursor_.Unsupported("a number above 2^63");
    cursor_.Next();
    return Literal(token.line, TemplateValue(number));
  }
  if (token.kind == TokenKind::kOperator && (token.text == "[" || token.text == "{")) {
    return cursor_.Unsupported(token.text == "[" ? "a list literal" : "a map literal");
  }
  if (!cursor_.Take("(")) return cursor_.Unexpected("where a value is needed");
  ES_ASSIGN_OR_RETURN(TemplateExprPtr inner, Conditional());
  if (cursor_.AtOperator(",")) return cursor_.Unsupported("a tuple");
  ES_RETURN_IF_ERROR(cursor_.Expect(TokenKind::kOperator, ")", "where ) is needed"));
  return inner;
}

Result<TemplateExprPtr> ExpressionParser::Named() {
  const TemplateToken& token = cursor_.Peek();
  if (std::find(std::begin(kReserved), std::end(kReserved), token.text) != std::end(kReserved)) {
    return cursor_.Unexpected("where a value is needed");
  }
  cursor_.Next();
  if (token.text == "true" || token.text == "True") return Literal(token.line, TemplateValue(true));
  if (token.text == "false" || token.text == "False") return Literal(token.line, TemplateValue(false));
  if (token.text == "none" || token.text == "None") return Literal(token.line, TemplateValue::None{});
  auto expr = std::make_unique<TemplateExpr>();
  expr->kind = cursor_.AtOperator("(") ? Kind::kCall : Kind::kName;
  expr->line = token.line;
  expr->name = token.text;
  if (expr->kind == Kind::kCall) ES_RETURN_IF_ERROR(Arguments(expr.get()));
  return Finish(std::move(expr));
}

Result<TemplateExprPtr> ExpressionParser::Postfix(TemplateExprPtr expr) {
  while (true) {
    const uint32_t line = cursor_.Peek().line;
    if (cursor_.Take("[")) {
      ES_ASSIGN_OR_RETURN(expr, Subscript(std::move(expr)));
    } else if (cursor_.Take(".")) {
      auto member = std::make_unique<TemplateExpr>();
      member->line = line;
      ES_RETURN_IF_ERROR(cursor_.ExpectName("after .", &member->name));
      member->parts = Parts(std::move(expr));
      member->kind = cursor_.AtOperator("(") ? Kind::kMethod : Kind::kMember;
      if (member->kind == Kind::kMethod) ES_RETURN_IF_ERROR(Arguments(member.get()));
      ES_ASSIGN_OR_RETURN(expr, Finish(std::move(member)));
    } else {
      return expr;
    }
  }
}

// After "[": an index, or up to three bounds between colons.
Result<TemplateExprPtr> ExpressionParser::Subscript(TemplateExprPtr expr) {
  const uint32_t line = cursor_.Peek().line;
  std::vector<TemplateExprPtr> parts = Parts(std::move(expr));
  bool slice = false;
  for (int colons = 0; colons < 3; ++colons) {
    if (cursor_.AtOperator(":") || cursor_.AtOperator("]")) {
      parts.push_back(nullptr);
    } else {
      ES_ASSIGN_OR_RETURN(TemplateExprPtr bound, Conditional());
      parts.push_back(std::move(bound));
    }
    if (colons == 2 || !cursor_.Take(":")) break;
    slice = true;
  }
  if (cursor_.AtOperator("]") && !slice && parts[1] == nullptr) return cursor_.Unexpected("where an index is needed");
  ES_RETURN_IF_ERROR(cursor_.Expect(TemplateToken::Kind::kOperator, "]", "where ] is needed"));
  if (slice) parts.resize(4);
  return Make(slice ? Kind::kSlice : Kind::kIndex, line, "", std::move(parts));
}

Result<TemplateExprPtr> ExpressionParser::Filters(TemplateExprPtr expr) {
  while (true) {
    const uint32_t line = cursor_.Peek().line;
    if (cursor_.Take("|")) {
      auto filter = std::make_unique<TemplateExpr>();
      filter->kind = Kind::kFilter;
      filter->line = line;
      ES_RETURN_IF_ERROR(cursor_.ExpectName("where a filter is needed", &filter->name));
      filter->parts = Parts(std::move(expr));
      if (cursor_.AtOperator("(")) ES_RETURN_IF_ERROR(Arguments(filter.get()));
      ES_ASSIGN_OR_RETURN(expr, Finish(std::move(filter)));
    } else if (cursor_.AtName("is")) {
      cursor_.Next();
      const bool inverted = cursor_.AtName("not");
      if (inverted) cursor_.Next();
      std::string test;
      ES_RETURN_IF_ERROR(cursor_.ExpectName("where a test is needed", &test));
      if (cursor_.AtOperator("(")) return cursor_.Unsupported("a test with an argument");
      ES_ASSIGN_OR_RETURN(expr, Make(Kind::kTest, line, test, Parts(std::move(expr))));
      if (!inverted) continue;
      ES_ASSIGN_OR_RETURN(expr, Make(Kind::kNot, line, "", Parts(std::move(expr))));
    } else {
      return expr;
    }
  }
}

Status ExpressionParser::Arguments(TemplateExpr* call) {
  cursor_.Next();  // the parenthesis
  while (!cursor_.Take(")")) {
    ES_ASSIGN_OR_RETURN(TemplateExprPtr argument, Conditional());
    if (argument->kind == Kind::kName && cursor_.Take("=")) {
      ES_ASSIGN_OR_RETURN(TemplateExprPtr value, Conditional());
      call->named.emplace_back(argument->name, std::move(value));
    } else if (!call->named.empty()) {
      return cursor_.Unexpected("behind an argument that stands after named ones");
    } else {
      call->parts.push_back(std::move(argument));
    }
    if (!cursor_.AtOperator(")"))
      ES_RETURN_IF_ERROR(cursor_.Expect(TemplateToken::Kind::kOperator, ",", "between arguments"));
  }
  return Status::Ok();
}

}  // namespace estream
