// SPDX-License-Identifier: Apache-2.0
// One pass over the source: text up to the next tag, then the tag.
#include "text/template_lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/macros.h"
#include "format/quote.h"
#include "text/marked_text.h"
#include "text/utf8.h"

namespace estream {
namespace {

using Token = TemplateToken;

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// `source` with every line ended by "\n", and without one newline at its end.
std::string WithPlainNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name) : source_(source), name_(name) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) ES_RETURN_IF_ERROR(TextAndTag());
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Status Error(std::string_view what) const { return TemplateError(StatusCode::kCorrupt, name_, line_, what); }

  void Add(Token::Kind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  char Peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  bool LooksAt(std::string_view expected) const { return source_.substr(at_, expected.size()) == expected; }

  // Moves on, counting lines.
  void Skip(size_t bytes) {
    line_ += static_cast<uint32_t>(std::count(source_.begin() + at_, source_.begin() + at_ + bytes, '\n'));
    at_ += bytes;
  }

  void SkipBlanks() {
    while (at_ < source_.size() && IsBlank(source_[at_])) Skip(1);
  }

  size_t NextTag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '%' || source_[i + 1] == '{' || source_[i + 1] == '#')) return i;
    }
    return source_.size();
  }

  Status TextAndTag() {
    const size_t tag = NextTag();
    std::string_view text = source_.substr(at_, tag - at_);
    const char kind = tag < source_.size() ? source_[tag + 1] : '\0';
    const char control = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (kind != '\0') text = StripBeforeTag(text, kind, control);
    if (!text.empty()) Add(Token::Kind::kText, std::string(text));
    Skip(tag - at_);
    if (kind == '\0') return Status::Ok();
    Skip(control == '-' || control == '+' ? 3 : 2);
    if (kind == '#') return Comment();
    return kind == '%' ? Tag(Token::Kind::kBlockBegin, Token::Kind::kBlockEnd, "%}")
                       : Tag(Token::Kind::kOutputBegin, Token::Kind::kOutputEnd, "}}");
  }

  // `text`, which stands in front of a tag, without the blanks that the tag swallows.
  std::string_view StripBeforeTag(std::string_view text, char kind, char control) const {
    if (control == '-') {
      while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
      return text;
    }
    if (control == '+' || kind == '{') return text;
    const size_t line = text.rfind('\n') + 1;  // 0 when the text has no newline
    if (line == 0 && !line_begins_) return text;
    return std::all_of(text.begin() + line, text.end(), IsBlank) ? text.substr(0, line) : text;
  }

  // Moves past a tag's end `close`, "-" or "+" in front of it, and the blanks behind that it swallows.
  void CloseTag(std::string_view close) {
    const char control = source_[at_];
    const bool controls = control == '-' || control == '+';
    Skip(close.size() + (controls ? 1 : 0));
    if (control == '-') {
      SkipBlanks();
    } else if (control != '+' && close != "}}" && Peek() == '\n') {
      Skip(1);
    }
    line_begins_ = source_[at_ - 1] == '\n';
  }

  bool AtClose(std::string_view close) const {
    if (LooksAt(close)) return true;
    const char c = Peek();
    return (c == '-' || (c == '+' && close != "}}")) && source_.substr(at_ + 1, close.size()) == close;
  }

  Status Comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return Error("a comment is not closed");
    const bool controlled = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    Skip(end - at_ - (controlled ? 1 : 0));
    CloseTag("#}");
    return Status::Ok();
  }

  Status Tag(Token::Kind begin, Token::Kind end, std::string_view close) {
    Add(begin, "");
    for (SkipBlanks(); !AtClose(close); SkipBlanks()) {
      if (at_ == source_.size()) return Error(fmt::format("a tag is not closed by {}", close));
      ES_RETURN_IF_ERROR(TagToken());
    }
    Add(end, "");
    CloseTag(close);
    return Status::Ok();
  }

  Status TagToken() {
    const char c = source_[at_];
    if (c == '\'' || c == '"') return String(c);
    if (IsNameStart(c) || IsDigit(c)) {
      size_t bytes = 1;
      while (IsNamePart(Peek(bytes))) ++bytes;
      const std::string word(source_.substr(at_, bytes));
      if (IsDigit(c) &&
          (!std::all_of(word.begin(), word.end(), IsDigit) || (Peek(bytes) == '.' && IsDigit(Peek(bytes + 1))))) {
        return TemplateError(StatusCode::kUnsupported, name_, line_,
                             fmt::format("the number {}... is not supported, only whole decimal ones", Quoted(word)));
      }
      Add(IsDigit(c) ? Token::Kind::kNumber : Token::Kind::kName, word);
      Skip(bytes);
      return Status::Ok();
    }
    for (const std::string_view pair : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (!LooksAt(pair)) continue;
      Add(Token::Kind::kOperator, std::string(pair));
      Skip(2);
      return Status::Ok();
    }
    if (std::string_view("+-*/%~<>=.,:|()[]{}").find(c) == std::string_view::npos) {
      return Error(fmt::format("unexpected character {}", Quoted(source_.substr(at_, DecodeUtf8(source_, at_).bytes))));
    }
    Add(Token::Kind::kOperator, std::string(1, c));
    Skip(1);
    return Status::Ok();
  }

  Status String(char quote) {
    std::string value;
    const uint32_t line = line_;
    Skip(1);
    while (Peek() != quote) {
      if (at_ == source_.size()) return TemplateError(StatusCode::kCorrupt, name_, line, "a string is not closed");
      if (source_[at_] == '\\') {
        ES_RETURN_IF_ERROR(Escape(&value));
      } else {
        value += source_[at_];
        Skip(1);
      }
    }
    Skip(1);
    tokens_.push_back({Token::Kind::kString, line, std::move(value)});
    return Status::Ok();
  }

  // An escape as Python reads it; an unknown one stands for itself.
  Status Escape(std::string* value) {
    const char c = Peek(1);
    constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
    if (c != '\0' && kNames.find(c) != std::string_view::npos) {
      *value += kValues[kNames.find(c)];
    } else if (c == '\0' || c == 'N' || IsDigit(c)) {
      return Error(fmt::format("the escape \\{} in a string is not supported", c == '\0' ? ' ' : c));
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return CodePoint(c == 'x' ? 2 : c == 'u' ? 4 : 8, value);
    } else if (c != '\n') {  // a newline after a backslash is no part of the string
      *value += {'\\', c};
    }
    Skip(2);
    return Status::Ok();
  }

  Status CodePoint(size_t digits, std::string* value) {
    uint32_t code_point = 0;
    for (size_t i = 2; i < 2 + digits; ++i) {
      const char c = Peek(i);
      const int digit = IsDigit(c)             ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0 || code_point > 0x10FFFF) return Error("an escape in a string is no code point");
      code_point = code_point * 16 + static_cast<uint32_t>(digit);
    }
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
      return Error("an escape in a string is no code point");
    }
    AppendUtf8(code_point, value);
    Skip(2 + digits);
    return Status::Ok();
  }

  const std::string_view source_;
  const std::string_view name_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool line_begins_ = true;  // at_ is the beginning of a line
  std::vector<Token> tokens_;
};

}  // namespace

Status TemplateError(StatusCode code, std::string_view name, uint32_t line, std::string_view what) {
  return {code, fmt::format("{}: line {}: {}", name, line, what)};
}

Result<std::vector<TemplateToken>> TokenizeTemplate(std::string_view source, std::string_view name) {
  const std::string text = WithPlainNewlines(source);
  return Lexer(text, name).Run();
}

}  // namespace estream
