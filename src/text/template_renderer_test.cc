// SPDX-License-Identifier: Apache-2.0
// Small templates: blanks, scopes, operators, what is refused and in which words, and that nothing runs away.
#include "text/template_renderer.h"

#include <gmock/gmock.h>

#include <vector>

#include "text/template_parser.h"

namespace estream {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string source, want;
};

TemplateValue Message(std::string_view text) { return TemplateValue(MarkedText(text, Origin::kMessage)); }

// What the templates below see: list = ["a", "b", "c"], map = {"key": "value"}, text = "a b", empty = "".
TemplateMap Variables() {
  TemplateList list;
  for (const char* item : {"a", "b", "c"}) list.push_back(Message(item));
  return {{"list", TemplateValue(std::move(list))},
          {"map", TemplateValue(TemplateMap{{"key", Message("value")}})},
          {"text", Message("a b")},
          {"empty", Message("")}};
}

Result<MarkedText> Render(std::string_view source, const TemplateLimits& limits = {1'000'000, 1 << 20}) {
  const Result<TemplateBody> body = ParseTemplate(source, "t");
  if (!body.ok()) return body.status();
  return TemplateRenderer("t", Variables(), limits).Render(*body);
}

std::string Text(std::string_view source) {
  const Result<MarkedText> rendered = Render(source);
  return rendered.ok() ? rendered->text() : "!" + rendered.status().message();
}

void ExpectAll(const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(Text(c.source), c.want) << c.source;
}

TEST(TemplateBlanks, AreTrimmedAndStrippedAsChatTemplatesExpect) {
  ExpectAll({
      {"", ""},
      {"\n", ""},
      {"a\n", "a"},
      {"a\n\n", "a\n"},
      {"a\r\nb\rc", "a\nb\nc"},
      {"a\n  {% if true %}\nb\n  {% endif %}\nc", "a\nb\nc"},
      {"a {% if true %} b {% endif %} c", "a  b  c"},
      {"  {% if true %}x{% endif %}", "x"},
      {"\xC3\xA9  {% if true %}x{% endif %}", "\xC3\xA9  x"},
      {"  {{ 'x' }}\n", "  x"},
      {"  {{ 'x' }}\ny", "  x\ny"},
      {"{{ 'x' }}  {% if true %}{% endif %}", "x  "},
      {"a \n {{- 'x' -}} \n b", "axb"},
      {"a \n {%- if true -%} \n b {%- endif -%} \n", "ab"},
      {"a\n  {%+ if true +%}\nb{% endif %}", "a\n  \nb"},
      {"a\n  {# note #}\nb", "a\nb"},
      {"a {#- note -#} b", "ab"},
      {"a{#-#}b{##}c", "abc"},
      {"{% if true %}\n\nx{% endif %}", "\nx"},
      {"{%- if true -%}\n{%- endif -%}\n  {% if true %}x{% endif %}", "x"},
      {"{ { % } }", "{ { % } }"},
  });
}

TEST(TemplateExpressions, MeanWhatPythonSays) {
  ExpectAll({
      {"{{ 'a' + \"b\" ~ 1 }}", "ab1"},
      {"{{ 'a' 'b' }}", "ab"},
      {R"({{ '\n\t\\\'\"\x41\u00e9\U0001F642\q' }})", "\n\t\\'\"A\xC3\xA9\xF0\x9F\x99\x82\\q"},
      {"{{ 'a\\\nb' }}", "ab"},
      {"{{ 1 + 2 * 3 - 4 }}", "3"},
      {"{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 // -2 }} {{ 6 % -3 }}", "-4 2 -2 -4 0"},
      {"{{ 1 ~ 2 + 3 }}", "!t: line 1: text and a number around +"},
      {"{{ 3 - -2 }}", "5"},
      {"{{ (true) == 1 }} {{ 'a' == 1 }} {{ none == none }} {{ x == y }} {{ 'a' != 'b' }}",
       "True False True True True"},
      {"{{ 1 < 2 }} {{ 2 <= 1 }} {{ 2 > 1 }} {{ 1 >= 2 }}", "True False True False"},
      {"{{ 'b' in list }} {{ 'x' not in list }} {{ ' ' in text }} {{ 'key' in map }}", "True True True True"},
      {"{{ '' or 'b' }}{{ 'a' and 'c' }}{{ 0 and 1 }}", "bc0"},
      {"{{ not empty }} {{ not (text) }}", "True False"},
      {"{{ 'y' if list else 'n' }}{{ 'y' if none else 'n' }}{{ 'y' if empty }}", "yn"},
      {"{{ 'a' if 0 else 'b' if 0 else 'c' }}", "c"},
      {"{{ list[0] }}{{ list[-1] }}{{ list[3] }}{{ list[-4] }}{{ map['key'] }}{{ map.key }}{{ map.other }}",
       "acvaluevalue"},
      {"{{ text.foo }}|{{ none }}|{{ missing }}", "|None|"},
      {"{% for x in list[1:] %}{{ x }}{% endfor %}|{% for x in list[::-1] %}{{ x }}{% endfor %}|"
       "{% for x in list[:-1] %}{{ x }}{% endfor %}|{% for x in list[5:] %}{{ x }}{% endfor %}|"
       "{% for x in list[-9:9:2] %}{{ x }}{% endfor %}|{% for x in list[1::-1] %}{{ x }}{% endfor %}|"
       "{% for x in list[:0:-1] %}{{ x }}{% endfor %}",
       "bc|cba|ab||ac|ba|cb"},
      {"{{ list|length - 1 }} {{ text|length }} {{ map|count }}", "2 3 1"},
      {"{{ x is defined }} {{ text is defined }} {{ not x is defined }} {{ x is not defined }}",
       "False True True True"},
      {"{{ text is string }} {{ 1 is string }} {{ map is mapping }} {{ none is none }}", "True False True True"},
      {"{{ false is false }} {{ 0 is false }} {{ true is true }} {{ x is undefined }}", "True False True True"},
      {"{{ x | default('d') }}{{ empty | default('d') }}{{ empty | default('d', true) }}", "dd"},
      {"{{ ' a ' | trim }}{{ 'xax'.strip('x') }}{{ ' a'.lstrip() }}{{ 'a '.rstrip() }}", "aaaa"},
      {"{{ 'a--b--c'.split('--')[-1] }}{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith('b') }}", "cTrueFalse"},
      {"{{ '\"\xC3\xA9\n\x01' | tojson }}", "\"\\\"\xC3\xA9\\n\\u0001\""},
      {"{{ map | tojson }}{{ list | tojson }}{{ 1 | tojson }}{{ true | tojson }}{{ none | tojson }}",
       "{\"key\": \"value\"}[\"a\", \"b\", \"c\"]1truenull"},
  });
}

TEST(TemplateStatements, ScopesFollowJinja) {
  ExpectAll({
      {"{% set a = 1 %}{% for x in list %}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }}", "2221"},
      {"{% if true %}{% set a = 1 %}{% endif %}{{ a }}", "1"},
      {"{% set n = namespace(a=1) %}{% for x in list %}{% set n.a = n.a + 1 %}{% endfor %}{{ n.a }}{{ n.b }}", "4"},
      {"{% set n = namespace() %}{% set n.b = 'x' %}{{ n.b }}", "x"},
      {"{% set list = list[1:] %}{{ list|length }}", "2"},
      {"{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor "
       "%}",
       "10TrueFalse3 21FalseFalse3 32FalseTrue3 "},
      {"{% for x in list %}{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}", "3b 2ac 1b "},
      {"{% for x in list %}{% for y in list %}{{ loop.index }}{% endfor %}{{ loop.index }},{% endfor %}",
       "1231,1232,1233,"},
      {"{% for x in missing %}x{% endfor %}", ""},
      {"{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}{% if 0 %}a{% elif 0 %}b{% else %}c{% endif %}", "bc"},
  });
}

TEST(TemplateErrors, NameTheLineAndWhatIsWrong) {
  ExpectAll({
      {"{{ raise_exception('Only users\\nmay speak!') }}", "!t: Only users may speak!"},
      {"\n\n{% macro f() %}", "!t: line 3: the tag {% macro %} is not supported"},
      {"{% frob %}", "!t: line 1: unexpected \"frob\" where a tag's name is needed"},
      {"{% for a, b in list %}", "!t: line 1: a for with two variables is not supported"},
      {"{% for a in list if a %}", "!t: line 1: a for with a condition is not supported"},
      {"{% for a in list %}{% else %}{% endfor %}", "!t: line 1: a for with an else is not supported"},
      {"{% for a in text %}{% endfor %}", "!t: line 1: a loop over text is not supported"},
      {"{% set a %}x{% endset %}", "!t: line 1: a set with a body is not supported"},
      {"{% set a, b = 1 %}", "!t: line 1: a set of two variables is not supported"},
      {"{% set a.b = 1 %}", "!t: line 1: \"a\" is not a namespace"},
      {"{% set n = namespace() %}{% set n.n = n %}", "!t: line 1: a namespace inside a namespace is not supported"},
      {"{{ namespace(a=namespace()) }}", "!t: line 1: a namespace inside a namespace is not supported"},
      {"{{ [1] }}", "!t: line 1: a list literal is not supported"},
      {"{{ {'a': 1} }}", "!t: line 1: a map literal is not supported"},
      {"{{ (1, 2) }}", "!t: line 1: a tuple is not supported"},
      {"{{ 1 < 2 < 3 }}", "!t: line 1: a chain of comparisons is not supported"},
      {"{{ 1.5 }}", "!t: line 1: the number \"1\"... is not supported, only whole decimal ones"},
      {"{{ 99999999999999999999 }}", "!t: line 1: a number above 2^63 is not supported"},
      {"{{ strftime_now('%Y') }}", "!t: line 1: the function \"strftime_now\" is not supported"},
      {"\n{{ text | title }}", "!t: line 2: the filter \"title\" of text is not supported"},
      {"{{ map.items() }}", "!t: line 1: the method \"items\" of a map is not supported"},
      {"{{ text.split() }}", "!t: line 1: the method \"split\" of text without an argument is not supported"},
      {"{{ text.split(' ', 1) }}", "!t: line 1: the method \"split\" of text with these arguments is not supported"},
      {"{{ text.split('') }}", "!t: line 1: split with an empty separator"},
      {"{{ text.strip(1) }}", "!t: line 1: strip needs text as its argument, not a number"},
      {"{{ 1 is odd }}", "!t: line 1: the test \"odd\" is not supported"},
      {"{{ 1 is divisibleby(2) }}", "!t: line 1: a test with an argument is not supported"},
      {"{{ 'a' + missing }}", "!t: line 1: \"missing\" is undefined, beside +"},
      {"{{ map.a.b }}", "!t: line 1: \"map.a\" is undefined, so it has no \"b\""},
      {"{{ map.a.strip() }}", "!t: line 1: \"map.a\" is undefined, so it has no \"strip\""},
      {"{{ list[7]['role'] }}", "!t: line 1: \"list[...]\" is undefined, so it cannot be indexed"},
      {"{{ text[0] }}", "!t: line 1: an index into text is not supported"},
      {"{{ text[1:] }}", "!t: line 1: a slice of text is not supported"},
      {"{{ list[::0] }}", "!t: line 1: a slice with step 0"},
      {"{{ list }}", "!t: line 1: printing a list is not supported"},
      {"{{ list == list }}", "!t: line 1: comparing a list with another is not supported"},
      {"{{ 1 / 2 }}", "!t: line 1: the operator / is not supported"},
      {"{{ 1 % 0 }}", "!t: line 1: a division by zero"},
      {"{{ 9223372036854775807 + 1 }}", "!t: line 1: 9223372036854775807 + 1 is too large"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "!t: line 1: -9223372036854775808 // -1 is too large"},
      {"{{ 'a' < 'b' }}", "!t: line 1: text and text around <"},
      {"{{ 1 in 2 }}", "!t: line 1: a number in a number"},
      {"{{ -text }}", "!t: line 1: a minus in front of text"},
      {"\n{{ 'a", "!t: line 2: a string is not closed"},
      {"{{ a", "!t: line 1: a tag is not closed by }}"},
      {"{# a", "!t: line 1: a comment is not closed"},
      {"{{ a ! }}", "!t: line 1: unexpected character \"!\""},
      {"{{ '\\N{DASH}' }}", "!t: line 1: the escape \\N in a string is not supported"},
      {"{{ '\\ud800' }}", "!t: line 1: an escape in a string is no code point"},
      {"{{ }}", "!t: line 1: unexpected the end of the tag where a value is needed"},
      {"{{ a b }}", "!t: line 1: unexpected \"b\" where }} is needed"},
      {"{{ if }}", "!t: line 1: unexpected \"if\" where a value is needed"},
      {"{{ f(a=1, 2) }}", "!t: line 1: unexpected \")\" behind an argument that stands after named ones"},
      {"{{ list[] }}", "!t: line 1: unexpected \"]\" where an index is needed"},
      {"{% if a %}", "!t: line 1: unexpected the end of the template inside the if of line 1"},
      {"{% for a in b %}\n{% endif %}", "!t: line 2: unexpected \"endif\" inside the for of line 1"},
      {"{% endif %}", "!t: line 1: unexpected \"endif\" outside of any block"},
  });
}

TEST(TemplateErrors, WhatIsNotReachedMayBeUnknown) {
  EXPECT_EQ(Text("{% if tools %}{{ tools | selectattr('x') }}{{ strftime_now('%d') }}{% endif %}ok"), "ok");
}

std::string Repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(TemplateLimits, DepthIsBounded) {
  const std::string too_deep = "!t: line 1: an expression is nested more than 100 deep";
  EXPECT_EQ(Text("{{ " + Repeated("(", 99) + "1" + Repeated(")", 99) + " }}"), "1");
  EXPECT_EQ(Text("{{ " + Repeated("1 + ", 99) + "1 }}"), "100");
  for (const std::string& source :
       {Repeated("(", 100) + "1" + Repeated(")", 100), Repeated("1 + ", 100) + "1", Repeated("(", 100'000),
        Repeated("not ", 50'000) + "1", Repeated("-", 100'000) + "1", Repeated("1 if 1 else ", 20'000) + "1",
        Repeated("a[", 100'000), Repeated("f(", 100'000), "a" + Repeated(".b", 100'000),
        "a" + Repeated("|b", 100'000)}) {
    EXPECT_EQ(Text("{{ " + source + " }}"), too_deep) << source.substr(0, 20);
  }
  EXPECT_EQ(Text(Repeated("{% if 1 %}", 49) + "x" + Repeated("{% endif %}", 49)), "x");
  EXPECT_EQ(Text(Repeated("{% if 1 %}", 10'000)), "!t: line 1: blocks are nested more than 50 deep");
}

TEST(TemplateLimits, StepsBytesAndSourceAreBounded) {
  const std::string loops = Repeated("{% for a in list %}", 40) + Repeated("{% endfor %}", 40);
  EXPECT_THAT(Render(loops, {100'000, 9}).status().message(), HasSubstr("takes too many steps"));
  const std::string doubling = "{% set n = namespace(t='x') %}" + Repeated("{% set n.t = n.t + n.t %}", 64);
  EXPECT_THAT(Text(doubling), HasSubstr("makes far more text"));
  EXPECT_THAT(Text(std::string(kMaxTemplateBytes + 1, 'x')),
              HasSubstr("the template has 262145 bytes, more than 262144"));
  EXPECT_FALSE(Render("{{ text }}{{ text }}", {100, 5}).ok());
  EXPECT_TRUE(Render("{{ text }}{{ text }}", {100, 6}).ok());
  EXPECT_FALSE(Render("{{ 1 }}", {1, 10}).ok());
  std::string members;
  for (int i = 0; i < 101; ++i) members += "{% set n.a" + std::to_string(i) + " = 1 %}";
  EXPECT_EQ(Text("{% set n = namespace() %}" + members),
            "!t: line 1: a namespace of more than 100 members is not supported");
}

TEST(TemplateErrors, LongTextsStayBelowTheLimitOfMessages) {
  EXPECT_THAT(Text("{{ raise_exception('" + Repeated("\xC3\xA9", 5000) + "') }}"), ::testing::EndsWith("\xC3\xA9..."));
  const std::string name(138, 'f'), word(9999, 'n');  // the longest path that is shown, and a key
  for (const std::string& source :
       {"{{ raise_exception('" + word + "') }}", "{{ " + word + ".a }}", "{{ " + word + "." + word + " }}",
        "{% " + word, "{{ " + word + "." + word + "() }}", "{{ 'a'." + word + "() }}", "{{ 1 | " + word + " }}",
        "{{ 1 is " + word + " }}", "{{ '" + word + "' 1 }}", "{{ x | " + word + " }}", "{{ " + word + "() }}",
        "{% set " + word + ".a = 1 %}"}) {
    const Result<TemplateBody> body = ParseTemplate(source, name);
    const Status status =
        body.ok() ? TemplateRenderer(name, Variables(), {1000, 20'000}).Render(*body).status() : body.status();
    EXPECT_FALSE(status.ok()) << source.substr(0, 30);
    EXPECT_LT(status.message().size(), 300u) << status.message();
  }
}

}  // namespace
}  // namespace estream
