// SPDX-License-Identifier: Apache-2.0
// The statements: what stands between {% and %}.
#include "text/template_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"
#include "format/quote.h"
#include "text/expression_parser.h"

namespace estream {
namespace {

using Kind = TemplateToken::Kind;

// What Jinja and its usual extensions have and this does not.
constexpr std::string_view kOtherTags[] = {"macro",   "call",       "filter", "block",    "extends",
                                           "include", "import",     "from",   "with",     "raw",
                                           "do",      "autoescape", "break",  "continue", "generation"};

template <class Names>
bool IsOneOf(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

class Parser {
 public:
  Parser(const std::vector<TemplateToken>& tokens, std::string_view name)
      : cursor_(tokens, name), expressions_(&cursor_) {}

  Result<TemplateBody> All() {
    TemplateBody body;
    ES_RETURN_IF_ERROR(Body(&body));
    if (!cursor_.At(Kind::kEnd)) return cursor_.Unexpected("outside of any block");
    return body;
  }

 private:
  // Statements up to the template's end or a tag that ends or divides a block, which is left with the cursor on its
  // name.
  Status Body(TemplateBody* body) {
    if (++depth_ > kMaxStatementDepth) return cursor_.TooDeep("blocks are", kMaxStatementDepth);
    for (; !cursor_.At(Kind::kEnd);) {
      TemplateStatement statement;
      statement.line = cursor_.Peek().line;
      if (cursor_.At(Kind::kBlockBegin)) {
        cursor_.Next();
        constexpr std::string_view kEnds[] = {"elif", "else", "endif", "endfor"};
        if (cursor_.At(Kind::kName) && IsOneOf(kEnds, cursor_.Peek().text)) break;
        ES_RETURN_IF_ERROR(Tag(&statement));
      } else if (cursor_.At(Kind::kText)) {
        statement.literal = TemplateValue(MarkedText(cursor_.Peek().text, Origin::kTemplate));
        cursor_.Next();
      } else {
        cursor_.Next();  // {{
        statement.kind = TemplateStatement::Kind::kOutput;
        ES_ASSIGN_OR_RETURN(statement.expr, expressions_.Conditional());
        ES_RETURN_IF_ERROR(cursor_.Expect(Kind::kOutputEnd, "", "where }} is needed"));
      }
      body->push_back(std::move(statement));
    }
    --depth_;
    return Status::Ok();
  }

  Status EndTag() { return cursor_.Expect(Kind::kBlockEnd, "", "where %} is needed"); }

  Status Tag(TemplateStatement* statement) {
    if (cursor_.AtName("if")) return If(statement);
    if (cursor_.AtName("for")) return For(statement);
    if (cursor_.AtName("set")) return Set(statement);
    if (cursor_.At(Kind::kName) && IsOneOf(kOtherTags, cursor_.Peek().text)) {
      return cursor_.Unsupported(fmt::format("the tag {{% {} %}}", cursor_.Peek().text));
    }
    return cursor_.Unexpected("where a tag's name is needed");
  }

  Status If(TemplateStatement* statement) {
    statement->kind = TemplateStatement::Kind::kIf;
    while (cursor_.AtName("if") || cursor_.AtName("elif")) {
      cursor_.Next();
      ES_ASSIGN_OR_RETURN(TemplateExprPtr condition, expressions_.Or());
      statement->conditions.push_back(std::move(condition));
      ES_RETURN_IF_ERROR(EndTag());
      ES_RETURN_IF_ERROR(Body(&statement->bodies.emplace_back()));
    }
    if (cursor_.AtName("else")) {
      cursor_.Next();
      ES_RETURN_IF_ERROR(EndTag());
      ES_RETURN_IF_ERROR(Body(&statement->bodies.emplace_back()));
    }
    ES_RETURN_IF_ERROR(cursor_.Expect(Kind::kName, "endif", fmt::format("inside the if of line {}", statement->line)));
    return EndTag();
  }

  Status For(TemplateStatement* statement) {
    statement->kind = TemplateStatement::Kind::kFor;
    cursor_.Next();
    ES_RETURN_IF_ERROR(cursor_.ExpectName("where the loop's variable is needed", &statement->name));
    if (cursor_.AtOperator(",")) return cursor_.Unsupported("a for with two variables");
    ES_RETURN_IF_ERROR(cursor_.Expect(Kind::kName, "in", "where in is needed"));
    ES_ASSIGN_OR_RETURN(statement->expr, expressions_.Or());
    if (cursor_.AtName("if")) return cursor_.Unsupported("a for with a condition");
    if (cursor_.AtName("recursive")) return cursor_.Unsupported("a recursive for");
    ES_RETURN_IF_ERROR(EndTag());
    ES_RETURN_IF_ERROR(Body(&statement->bodies.emplace_back()));
    if (cursor_.AtName("else")) return cursor_.Unsupported("a for with an else");
    ES_RETURN_IF_ERROR(
        cursor_.Expect(Kind::kName, "endfor", fmt::format("inside the for of line {}", statement->line)));
    return EndTag();
  }

  Status Set(TemplateStatement* statement) {
    statement->kind = TemplateStatement::Kind::kSet;
    cursor_.Next();
    ES_RETURN_IF_ERROR(cursor_.ExpectName("where a variable is needed", &statement->name));
    if (cursor_.Take(".")) ES_RETURN_IF_ERROR(cursor_.ExpectName("after .", &statement->member));
    if (cursor_.AtOperator(",")) return cursor_.Unsupported("a set of two variables");
    if (cursor_.At(Kind::kBlockEnd)) return cursor_.Unsupported("a set with a body");
    ES_RETURN_IF_ERROR(cursor_.Expect(Kind::kOperator, "=", "where = is needed"));
    ES_ASSIGN_OR_RETURN(statement->expr, expressions_.Conditional());
    return EndTag();
  }

  TemplateCursor cursor_;
  ExpressionParser expressions_;
  uint32_t depth_ = 0;
};

}  // namespace

Result<TemplateBody> ParseTemplate(std::string_view source, std::string_view name) {
  if (source.size() > kMaxTemplateBytes) {
    return Status::Unsupported(
        fmt::format("{}: the template has {} bytes, more than {}", name, source.size(), kMaxTemplateBytes));
  }
  ES_ASSIGN_OR_RETURN(const std::vector<TemplateToken> tokens, TokenizeTemplate(source, name));
  return Parser(tokens, name).All();
}

}  // namespace estream
