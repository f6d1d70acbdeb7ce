// SPDX-License-Identifier: Apache-2.0
// The functions, methods, filters and tests that templates may call by name.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/macros.h"
#include "format/quote.h"
#include "text/template_lexer.h"
#include "text/template_renderer.h"
#include "text/utf8.h"

namespace estream {
namespace {

constexpr size_t kMaxSeparatorBytes = 256;  // bounds the cost of a search
constexpr size_t kMaxRaisedBytes = 140;     // leaves room for the template's name below 300

// What a template raised, as one line that fits an error message.
std::string Raised(const std::string& text) {
  std::string line = ToPrintable(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\t', ' ');
  if (line.size() <= kMaxRaisedBytes) return line;
  size_t end = kMaxRaisedBytes;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return line.substr(0, end) + "...";
}

}  // namespace

// The values of the positional arguments from parts[first] on; no more than `max`, and no named ones.
Status TemplateRenderer::EvalArguments(const Expr& expr, size_t first, size_t max, std::string_view what,
                                       Values* arguments) {
  if (expr.parts.size() - first > max || !expr.named.empty()) {
    return Unsupported(expr, fmt::format("{} with these arguments", what));
  }
  for (size_t i = first; i < expr.parts.size(); ++i) {
    ES_ASSIGN_OR_RETURN(Value value, Eval(*expr.parts[i]));
    arguments->push_back(std::move(value));
  }
  return Status::Ok();
}

Result<const MarkedText*> TemplateRenderer::TextArgument(const Expr& expr, const Value& value) const {
  if (value.text() == nullptr) {
    return Error(expr, fmt::format("{} needs text as its argument, not {}", expr.name, value.KindName()));
  }
  return value.text();
}

Result<TemplateValue> TemplateRenderer::Call(const Expr& expr) {
  if (expr.name == "namespace") return MakeNamespace(expr);
  const std::string what = fmt::format("the function {}", Quoted(expr.name));
  if (expr.name != "raise_exception") return Unsupported(expr, what);
  Values arguments;
  ES_RETURN_IF_ERROR(EvalArguments(expr, 0, 1, what, &arguments));
  if (arguments.empty()) return Error(expr, "raise_exception without a text");
  ES_ASSIGN_OR_RETURN(const MarkedText* text, TextArgument(expr, arguments[0]));
  return Status::InvalidArgument(fmt::format("{}: {}", name_, Raised(text->text())));
}

Result<TemplateValue> TemplateRenderer::MakeNamespace(const Expr& expr) {
  if (!expr.parts.empty()) return Unsupported(expr, "namespace with arguments that have no name");
  Value::Namespace made{std::make_shared<TemplateMap>()};
  if (expr.named.size() > kMaxMembers) return Unsupported(expr, TooManyMembers());
  for (const auto& [name, argument] : expr.named) {
    ES_ASSIGN_OR_RETURN(Value value, Eval(*argument));
    if (value.names() != nullptr) return Unsupported(expr, "a namespace inside a namespace");
    made.members->emplace_back(name, std::move(value));
  }
  return Value(std::move(made));
}

Result<TemplateValue> TemplateRenderer::Method(const Expr& expr) {
  ES_ASSIGN_OR_RETURN(const Value owner, Eval(*expr.parts[0]));
  if (const Value::Undefined* undefined = owner.undefined()) {
    return Error(expr, fmt::format("{} is undefined, so it has no {}", NameOf(*undefined), Quoted(expr.name)));
  }
  const std::string what = fmt::format("the method {} of {}", Quoted(expr.name), owner.KindName());
  const bool strips = expr.name == "strip" || expr.name == "lstrip" || expr.name == "rstrip";
  const bool starts = expr.name == "startswith", ends = expr.name == "endswith", splits = expr.name == "split";
  if (owner.text() == nullptr || !(strips || starts || ends || splits)) return Unsupported(expr, what);
  const MarkedText& text = *owner.text();
  Values arguments;
  ES_RETURN_IF_ERROR(EvalArguments(expr, 1, 1, what, &arguments));
  if (arguments.empty() && !strips) return Unsupported(expr, what + " without an argument");
  const MarkedText* argument = nullptr;
  if (!arguments.empty()) {
    ES_ASSIGN_OR_RETURN(argument, TextArgument(expr, arguments[0]));
    if (argument->size() > kMaxSeparatorBytes && !starts && !ends) {
      return Unsupported(expr, fmt::format("{} with more than {} bytes", what, kMaxSeparatorBytes));
    }
  }
  ES_RETURN_IF_ERROR(Charge(expr.line, text.size()));
  if (strips) {
    const auto characters = argument == nullptr ? std::nullopt : std::optional<std::string_view>(argument->text());
    return Value(text.Strip(expr.name != "rstrip", expr.name != "lstrip", characters));
  }
  if (starts) return Value(text.text().starts_with(argument->text()));
  if (ends) return Value(text.text().ends_with(argument->text()));
  if (argument->size() == 0) return Error(expr, "split with an empty separator");
  TemplateList parts;
  for (MarkedText& part : text.Split(argument->text())) {
    ES_RETURN_IF_ERROR(Charge(expr.line, sizeof(Value) + sizeof(MarkedText)));
    parts.emplace_back(std::move(part));
  }
  return Value(std::move(parts));
}

Result<TemplateValue> TemplateRenderer::Filter(const Expr& expr) {
  ES_ASSIGN_OR_RETURN(Value value, Eval(*expr.parts[0]));
  const std::string what = fmt::format("the filter {}", Quoted(expr.name));
  Values arguments;
  if (expr.name == "default" || expr.name == "d") {
    ES_RETURN_IF_ERROR(EvalArguments(expr, 1, 2, what, &arguments));
    const bool replaces = value.is_undefined() || (arguments.size() == 2 && arguments[1].IsTrue() && !value.IsTrue());
    if (!replaces) return value;
    return arguments.empty() ? Value(MarkedText()) : arguments[0];
  }
  ES_RETURN_IF_ERROR(EvalArguments(expr, 1, 0, what, &arguments));
  if (value.is_undefined())
    return Error(expr, fmt::format("{} is undefined, before {}", NameOf(*value.undefined()), what));
  if (expr.name == "trim" && value.text() != nullptr) {
    ES_RETURN_IF_ERROR(Charge(expr.line, value.text()->size()));
    return Value(value.text()->Strip(true, true, std::nullopt));
  }
  if (expr.name == "length" || expr.name == "count") {
    if (const TemplateList* list = value.list()) return Value(static_cast<int64_t>(list->size()));
    if (const TemplateMap* map = value.map()) return Value(static_cast<int64_t>(map->size()));
    if (const MarkedText* text = value.text()) {
      ES_RETURN_IF_ERROR(Charge(expr.line, text->size()));
      return Value(static_cast<int64_t>(CountCharacters(text->text())));
    }
  }
  if (expr.name == "tojson" && value.names() == nullptr) {
    MarkedText json = ToJson(value);  // a few times what `value` holds, so it may be made before it is charged
    ES_RETURN_IF_ERROR(Charge(expr.line, json.size()));
    return Value(std::move(json));
  }
  return Unsupported(expr, fmt::format("{} of {}", what, value.KindName()));
}

Result<TemplateValue> TemplateRenderer::Test(const Expr& expr) {
  ES_ASSIGN_OR_RETURN(const Value value, Eval(*expr.parts[0]));
  const std::string& test = expr.name;
  if (test == "defined") return Value(!value.is_undefined());
  if (test == "undefined") return Value(value.is_undefined());
  if (test == "none") return Value(value.is_none());
  if (test == "string") return Value(value.text() != nullptr);
  if (test == "mapping") return Value(value.map() != nullptr);
  if (test == "boolean") return Value(value.boolean() != nullptr);
  if (test == "true" || test == "false")
    return Value(value.boolean() != nullptr && *value.boolean() == (test == "true"));
  return Unsupported(expr, fmt::format("the test {}", Quoted(test)));
}

}  // namespace estream
