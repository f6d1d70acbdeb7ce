// SPDX-License-Identifier: Apache-2.0
// Python's notions of truth, and JSON.
#include "text/template_value.h"

#include <fmt/format.h>

#include <algorithm>

namespace estream {
namespace {

void AppendJsonText(const MarkedText& text, MarkedText* out) {
  constexpr std::string_view kNamed = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.text()[i];
    if (const size_t named = kNamed.find(c); named != std::string_view::npos) {
      out->Append("\\", Origin::kTemplate);
      out->Append(kNames.substr(named, 1), Origin::kTemplate);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out->Append(fmt::format("\\u{:04x}", static_cast<unsigned>(c)), Origin::kTemplate);
    } else {
      out->Append(std::string_view(&c, 1), text.origin(i));
    }
  }
}

void AppendJson(const TemplateValue& value, MarkedText* out) {
  const auto put = [out](std::string_view text) { out->Append(text, Origin::kTemplate); };
  const auto put_text = [&](const MarkedText& text) {
    put("\"");
    AppendJsonText(text, out);
    put("\"");
  };
  const char* separator = "";
  if (const MarkedText* text = value.text()) {
    put_text(*text);
  } else if (const bool* boolean = value.boolean()) {
    put(*boolean ? "true" : "false");
  } else if (const int64_t* integer = value.integer()) {
    put(fmt::format("{}", *integer));
  } else if (const TemplateList* list = value.list()) {
    put("[");
    for (const TemplateValue& item : *list) {
      put(std::exchange(separator, ", "));
      AppendJson(item, out);
    }
    put("]");
  } else if (const TemplateMap* map = value.map()) {
    put("{");
    for (const auto& [name, member] : *map) {
      put(std::exchange(separator, ", "));
      put_text(MarkedText(name, Origin::kTemplate));
      put(": ");
      AppendJson(member, out);
    }
    put("}");
  } else {
    put("null");
  }
}

}  // namespace

bool TemplateValue::IsTrue() const {
  if (is_undefined() || is_none()) return false;
  if (const bool* value = boolean()) return *value;
  if (const int64_t* value = integer()) return *value != 0;
  if (const MarkedText* value = text()) return value->size() > 0;
  if (const TemplateList* value = list()) return !value->empty();
  if (const TemplateMap* value = map()) return !value->empty();
  return true;
}

const char* TemplateValue::KindName() const {
  constexpr const char* kNames[] = {"undefined", "none",   "a boolean", "a number",
                                    "text",      "a list", "a map",     "a namespace"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(value_)>);
  return kNames[value_.index()];
}

const TemplateValue* FindMember(const TemplateMap& map, std::string_view name) {
  const auto found = std::find_if(map.begin(), map.end(), [&](const auto& member) { return member.first == name; });
  return found == map.end() ? nullptr : &found->second;
}

MarkedText ToJson(const TemplateValue& value) {
  MarkedText out;
  AppendJson(value, &out);
  return out;
}

}  // namespace estream
