// SPDX-License-Identifier: Apache-2.0
// Events instead of a document: what is not expected ends the reading at once, so that nothing nests.
#include "tools/chat_messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "format/quote.h"

namespace estream {
namespace {

// Called by nlohmann::json::sax_parse; false ends it.
class MessageReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Status status() const {
    return Status::InvalidArgument(error_.empty() ? "a JSON array of messages is needed" : error_);
  }
  std::vector<ChatMessage> Take() { return std::move(messages_); }

  bool start_array(size_t) override {
    if (in_array_) return Unexpected();
    return in_array_ = true;
  }
  bool end_array() override { return true; }
  bool start_object(size_t) override {
    if (!in_array_ || in_message_) return Unexpected();
    messages_.emplace_back();
    has_role_ = has_content_ = false;
    return in_message_ = true;
  }
  bool key(std::string& name) override {
    key_ = name;
    bool* has = name == "role" ? &has_role_ : name == "content" ? &has_content_ : nullptr;
    if (has == nullptr) return Fail(fmt::format("has a member {}; role and content are known", Quoted(name)));
    if (*has) return Fail(fmt::format("has {} twice", Quoted(name)));
    return *has = true;
  }
  bool string(std::string& value) override {
    if (!in_message_) return Unexpected();
    (key_ == "role" ? messages_.back().role : messages_.back().content) = std::move(value);
    return true;
  }
  bool end_object() override {
    in_message_ = false;
    if (!has_role_ || !has_content_) return Fail(fmt::format("has no \"{}\"", has_role_ ? "content" : "role"));
    return true;
  }

  bool null() override { return Unexpected(); }
  bool boolean(bool) override { return Unexpected(); }
  bool number_integer(int64_t) override { return Unexpected(); }
  bool number_unsigned(uint64_t) override { return Unexpected(); }
  bool number_float(double, const std::string&) override { return Unexpected(); }
  bool binary(binary_t&) override { return Unexpected(); }
  bool parse_error(size_t byte, const std::string&, const nlohmann::json::exception&) override {
    error_ = fmt::format("no JSON from byte {} on", byte);
    return false;
  }

 private:
  bool Fail(std::string_view what) {
    error_ = fmt::format("message {} {}", messages_.size(), what);
    return false;
  }
  bool Unexpected() {
    if (in_message_) return Fail(fmt::format("needs text as its {}", Quoted(key_)));
    if (in_array_) error_ = fmt::format("message {} is no object with role and content", messages_.size() + 1);
    return false;
  }

  std::vector<ChatMessage> messages_;
  std::string key_, error_;
  bool in_array_ = false, in_message_ = false;
  bool has_role_ = false, has_content_ = false;  // of the message being read
};

}  // namespace

Result<std::vector<ChatMessage>> ParseChatMessages(std::string_view json) {
  MessageReader reader;
  if (!nlohmann::json::sax_parse(json, &reader)) return reader.status();
  return reader.Take();
}

}  // namespace estream
