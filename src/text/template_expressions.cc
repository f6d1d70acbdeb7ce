// SPDX-License-Identifier: Apache-2.0
// Evaluating expressions as Python would, text with its origins.
#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"
#include "format/quote.h"
#include "text/template_renderer.h"

namespace estream {
namespace {

// A text to look for must be short, which bounds the cost of a search.
constexpr size_t kMaxNeedleBytes = 256;

// A variable is looked for among all; so many of them take about as long as one expression.
constexpr size_t kVariablesAStep = 16;

}  // namespace

Result<TemplateValue> TemplateRenderer::Eval(const Expr& expr) {
  using Kind = Expr::Kind;
  ES_RETURN_IF_ERROR(Step(expr.line));
  switch (expr.kind) {
    case Kind::kLiteral:
      return expr.literal;
    case Kind::kName: {
      ES_RETURN_IF_ERROR(Step(expr.line, variable_count_ / kVariablesAStep));
      const Value* value = FindVariable(expr.name);
      return value == nullptr ? Value(Value::Undefined{&expr}) : *value;
    }
    case Kind::kMember:
      return Member(expr);
    case Kind::kIndex:
      return Index(expr);
    case Kind::kSlice:
      return Slice(expr);
    case Kind::kCall:
      return Call(expr);
    case Kind::kMethod:
      return Method(expr);
    case Kind::kFilter:
      return Filter(expr);
    case Kind::kTest:
      return Test(expr);
    case Kind::kConditional:
      return Conditional(expr);
    case Kind::kBinary:
      return Binary(expr);
    case Kind::kNot: {
      ES_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.parts[0]));
      return Value(!operand.IsTrue());
    }
    case Kind::kNegate: {
      ES_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.parts[0]));
      int64_t storage = 0;
      const int64_t* number = operand.AsNumber(&storage);
      if (number == nullptr) return Error(expr, fmt::format("a minus in front of {}", operand.KindName()));
      TemplateExpr minus;
      minus.name = "-";
      minus.line = expr.line;
      return Arithmetic(minus, 0, *number);
    }
    case Kind::kAnd:
    case Kind::kOr: {
      ES_ASSIGN_OR_RETURN(Value left, Eval(*expr.parts[0]));
      if (left.IsTrue() == (expr.kind == Kind::kOr)) return left;
      return Eval(*expr.parts[1]);
    }
  }
  return Value();
}

Result<TemplateValue> TemplateRenderer::Conditional(const Expr& expr) {
  ES_ASSIGN_OR_RETURN(const Value condition, Eval(*expr.parts[0]));
  if (condition.IsTrue()) return Eval(*expr.parts[1]);
  if (expr.parts[2] == nullptr) return Value();
  return Eval(*expr.parts[2]);
}

Result<TemplateValue> TemplateRenderer::Member(const Expr& expr) {
  ES_ASSIGN_OR_RETURN(const Value owner, Eval(*expr.parts[0]));
  if (const Value::Undefined* undefined = owner.undefined()) {
    return Error(expr, fmt::format("{} is undefined, so it has no {}", NameOf(*undefined), Quoted(expr.name)));
  }
  const TemplateMap* members = owner.names() != nullptr ? owner.names() : owner.map();
  const Value* found = members == nullptr ? nullptr : FindMember(*members, expr.name);
  return found == nullptr ? Value(Value::Undefined{&expr}) : *found;
}

Result<TemplateValue> TemplateRenderer::Index(const Expr& expr) {
  ES_ASSIGN_OR_RETURN(const Value owner, Eval(*expr.parts[0]));
  ES_ASSIGN_OR_RETURN(const Value index, Eval(*expr.parts[1]));
  if (const Value::Undefined* undefined = owner.undefined()) {
    return Error(expr, fmt::format("{} is undefined, so it cannot be indexed", NameOf(*undefined)));
  }
  if (owner.text() != nullptr || owner.names() != nullptr) {
    return Unsupported(expr, fmt::format("an index into {}", owner.KindName()));
  }
  int64_t storage = 0;
  if (const int64_t* at = index.AsNumber(&storage); at != nullptr && owner.list() != nullptr) {
    const auto size = static_cast<int64_t>(owner.list()->size());
    const int64_t position = *at < 0 ? *at + size : *at;
    if (position >= 0 && position < size) return (*owner.list())[static_cast<size_t>(position)];
  }
  if (index.text() != nullptr && owner.map() != nullptr) {
    if (const Value* found = FindMember(*owner.map(), index.text()->text())) return *found;
  }
  return Value(Value::Undefined{&expr});
}

// As Python's slice.indices.
Result<TemplateValue> TemplateRenderer::Slice(const Expr& expr) {
  ES_ASSIGN_OR_RETURN(const Value owner, Eval(*expr.parts[0]));
  if (owner.list() == nullptr) return Unsupported(expr, fmt::format("a slice of {}", owner.KindName()));
  const TemplateList& list = *owner.list();
  const auto size = static_cast<int64_t>(list.size());
  int64_t bounds[3] = {0, 0, 1};
  bool given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (expr.parts[i + 1] == nullptr) continue;
    ES_ASSIGN_OR_RETURN(const Value bound, Eval(*expr.parts[i + 1]));
    if (bound.is_none()) continue;
    if (bound.integer() == nullptr) return Error(expr, fmt::format("a slice up to {}", bound.KindName()));
    // Whatever is farther out selects the same.
    bounds[i] = std::clamp(*bound.integer(), -size - 1, size + 1);
    given[i] = true;
  }
  const int64_t step = bounds[2];
  if (step == 0) return Error(expr, "a slice with step 0");
  const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  const auto place = [&](size_t i, int64_t otherwise) {
    return given[i] ? std::clamp(bounds[i] < 0 ? bounds[i] + size : bounds[i], lowest, highest) : otherwise;
  };
  const int64_t end = place(1, step > 0 ? highest : lowest);
  ES_RETURN_IF_ERROR(Charge(expr.line, list.size() * sizeof(Value)));
  TemplateList items;
  for (int64_t i = place(0, step > 0 ? lowest : highest); step > 0 ? i < end : i > end; i += step) {
    items.push_back(list[static_cast<size_t>(i)]);
  }
  return Value(std::move(items));
}

Result<TemplateValue> TemplateRenderer::Binary(const Expr& expr) {
  ES_ASSIGN_OR_RETURN(const Value left, Eval(*expr.parts[0]));
  ES_ASSIGN_OR_RETURN(const Value right, Eval(*expr.parts[1]));
  const std::string& op = expr.name;
  if (op == "==" || op == "!=") {
    ES_ASSIGN_OR_RETURN(const bool equal, Equal(expr, left, right));
    return Value(equal == (op == "=="));
  }
  for (const Value* operand : {&left, &right}) {
    if (operand->is_undefined() && op != "~") {
      return Error(expr, fmt::format("{} is undefined, beside {}", NameOf(*operand->undefined()), op));
    }
  }
  if (op == "in") {
    ES_ASSIGN_OR_RETURN(const bool contains, Contains(expr, left, right));
    return Value(contains);
  }
  if (op == "~" || (op == "+" && left.text() != nullptr && right.text() != nullptr)) return Join(expr, left, right);
  int64_t storage[2] = {};
  const int64_t* numbers[2] = {left.AsNumber(&storage[0]), right.AsNumber(&storage[1])};
  if (numbers[0] == nullptr || numbers[1] == nullptr) {
    return Error(expr, fmt::format("{} and {} around {}", left.KindName(), right.KindName(), op));
  }
  return Arithmetic(expr, *numbers[0], *numbers[1]);
}

Result<TemplateValue> TemplateRenderer::Join(const Expr& expr, const Value& left, const Value& right) {
  ES_ASSIGN_OR_RETURN(MarkedText joined, Printed(expr, left));
  ES_ASSIGN_OR_RETURN(const MarkedText tail, Printed(expr, right));
  joined.Append(tail);
  return Value(std::move(joined));
}

Result<TemplateValue> TemplateRenderer::Arithmetic(const Expr& expr, int64_t left, int64_t right) const {
  const std::string& op = expr.name;
  if (op == "<") return Value(left < right);
  if (op == "<=") return Value(left <= right);
  if (op == ">") return Value(left > right);
  if (op == ">=") return Value(left >= right);
  int64_t result = 0;
  bool wraps = false;
  if (op == "+") {
    wraps = __builtin_add_overflow(left, right, &result);
  } else if (op == "-") {
    wraps = __builtin_sub_overflow(left, right, &result);
  } else if (op == "*") {
    wraps = __builtin_mul_overflow(left, right, &result);
  } else if (op == "//" || op == "%") {
    if (right == 0) return Error(expr, "a division by zero");
    if (right == -1) {
      wraps = op == "//" && __builtin_sub_overflow(int64_t{0}, left, &result);
    } else {
      // Python rounds down, C++ towards zero.
      const int64_t rest = left % right;
      const bool down = rest != 0 && (rest < 0) != (right < 0);
      result = op == "%" ? rest + (down ? right : 0) : left / right - (down ? 1 : 0);
    }
  } else {
    return Unsupported(expr, fmt::format("the operator {}", op));
  }
  if (wraps) return Error(expr, fmt::format("{} {} {} is too large", left, op, right));
  return Value(result);
}

Result<bool> TemplateRenderer::Equal(const Expr& expr, const Value& left, const Value& right) {
  int64_t storage[2] = {};
  const int64_t* numbers[2] = {left.AsNumber(&storage[0]), right.AsNumber(&storage[1])};
  if (numbers[0] != nullptr && numbers[1] != nullptr) return *numbers[0] == *numbers[1];
  if (left.text() != nullptr && right.text() != nullptr) {
    ES_RETURN_IF_ERROR(Charge(expr.line, std::min(left.text()->size(), right.text()->size())));
    return left.text()->text() == right.text()->text();
  }
  if (left.is_none() || left.is_undefined()) return std::string_view(left.KindName()) == right.KindName();
  if (std::string_view(left.KindName()) != right.KindName()) return false;
  return Unsupported(expr, fmt::format("comparing {} with another", left.KindName()));
}

Result<bool> TemplateRenderer::Contains(const Expr& expr, const Value& part, const Value& whole) {
  if (const TemplateMap* map = whole.map(); map != nullptr && part.text() != nullptr) {
    return FindMember(*map, part.text()->text()) != nullptr;
  }
  if (const TemplateList* list = whole.list()) {
    for (const Value& item : *list) {
      ES_RETURN_IF_ERROR(Step(expr.line));
      ES_ASSIGN_OR_RETURN(const bool equal, Equal(expr, part, item));
      if (equal) return true;
    }
    return false;
  }
  if (part.text() == nullptr || whole.text() == nullptr) {
    return Error(expr, fmt::format("{} in {}", part.KindName(), whole.KindName()));
  }
  if (part.text()->size() > kMaxNeedleBytes) {
    return Unsupported(expr, fmt::format("looking for more than {} bytes", kMaxNeedleBytes));
  }
  ES_RETURN_IF_ERROR(Charge(expr.line, whole.text()->size()));
  return whole.text()->text().find(part.text()->text()) != std::string::npos;
}

Result<MarkedText> TemplateRenderer::Printed(const Expr& expr, const Value& value) {
  MarkedText printed;
  if (const MarkedText* text = value.text()) {
    ES_RETURN_IF_ERROR(Charge(expr.line, text->size()));
    return *text;
  }
  if (const bool* boolean = value.boolean()) {
    printed.Append(*boolean ? "True" : "False", Origin::kTemplate);
  } else if (const int64_t* integer = value.integer()) {
    printed.Append(fmt::format("{}", *integer), Origin::kTemplate);
  } else if (value.is_none()) {
    printed.Append("None", Origin::kTemplate);
  } else if (!value.is_undefined()) {
    return Unsupported(expr, fmt::format("printing {}", value.KindName()));
  }
  return printed;
}

}  // namespace estream
