// SPDX-License-Identifier: Apache-2.0
// The values a chat template computes with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/marked_text.h"

namespace estream {

struct TemplateExpr;
class TemplateValue;
using TemplateList = std::vector<TemplateValue>;
using TemplateMap = std::vector<std::pair<std::string, TemplateValue>>;  // in the order of insertion

// Lists and maps are shared and never change; a namespace is shared and does. Nothing holds a namespace but a
// variable, and no operation nests lists, so that values are shallow and free of cycles.
class TemplateValue {
 public:
  struct Undefined {
    const TemplateExpr* source;  // what was looked up, for messages; null: nothing that has a name
  };
  struct None {};
  using Text = std::shared_ptr<const MarkedText>;
  using List = std::shared_ptr<const TemplateList>;
  using Map = std::shared_ptr<const TemplateMap>;
  struct Namespace {
    std::shared_ptr<TemplateMap> members;
  };

  TemplateValue() = default;                         // undefined
  TemplateValue(Undefined value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  TemplateValue(None value) : value_(value) {}       // NOLINT(google-explicit-constructor)
  explicit TemplateValue(bool value) : value_(value) {}
  explicit TemplateValue(int64_t value) : value_(value) {}
  explicit TemplateValue(MarkedText text) : value_(std::make_shared<const MarkedText>(std::move(text))) {}
  explicit TemplateValue(TemplateList list) : value_(std::make_shared<const TemplateList>(std::move(list))) {}
  explicit TemplateValue(TemplateMap map) : value_(std::make_shared<const TemplateMap>(std::move(map))) {}
  explicit TemplateValue(Namespace value) : value_(std::move(value)) {}

  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool is_none() const { return std::holds_alternative<None>(value_); }
  const Undefined* undefined() const { return std::get_if<Undefined>(&value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const MarkedText* text() const { return Shared<Text>(); }
  const TemplateList* list() const { return Shared<List>(); }
  const TemplateMap* map() const { return Shared<Map>(); }
  TemplateMap* names() const {
    const Namespace* value = std::get_if<Namespace>(&value_);
    return value == nullptr ? nullptr : value->members.get();
  }

  // The value of a boolean or an integer, as Python counts with both.
  const int64_t* AsNumber(int64_t* storage) const {
    if (const bool* value = boolean()) {
      *storage = *value ? 1 : 0;
      return storage;
    }
    return integer();
  }

  // As Python decides in an `if`.
  bool IsTrue() const;

  // "text", "a list", "undefined", for messages.
  const char* KindName() const;

 private:
  template <class Pointer>
  const typename Pointer::element_type* Shared() const {
    const Pointer* value = std::get_if<Pointer>(&value_);
    return value == nullptr ? nullptr : value->get();
  }

  std::variant<Undefined, None, bool, int64_t, Text, List, Map, Namespace> value_;
};

// The member of that name, or null.
const TemplateValue* FindMember(const TemplateMap& map, std::string_view name);

// `value` as JSON on one line, as Python's json.dumps writes it without escaping non-ASCII. Bytes keep their origin;
// quotes and escapes are the template's.  Pre: no undefined value and no namespace in it.
MarkedText ToJson(const TemplateValue& value);

}  // namespace estream
