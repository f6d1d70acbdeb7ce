// SPDX-License-Identifier: Apache-2.0
// Messages into values, rendered bytes into spans, spans into tokens.
#include "text/chat_template.h"

#include <fmt/format.h>

#include "base/macros.h"
#include "text/template_parser.h"
#include "text/template_renderer.h"

namespace estream {
namespace {

// Templates in use take some hundred steps, and less than a hundred for each message.
constexpr uint64_t kFreeSteps = 1'000'000;
constexpr uint64_t kStepsAMessage = 1000;

// Room for templates that build text step by step; messages are copied a handful of times by templates in use.
constexpr uint64_t kFreeBytes = uint64_t{16} << 20;
constexpr uint64_t kCopies = 32;

RenderedChat WithSpans(const MarkedText& marked) {
  RenderedChat chat;
  chat.text = marked.text();
  for (size_t i = 0; i < marked.size(); ++i) {
    const bool from_template = marked.origin(i) == Origin::kTemplate;
    if (chat.spans.empty() || chat.spans.back().from_template != from_template)
      chat.spans.push_back({0, from_template});
    ++chat.spans.back().bytes;
  }
  return chat;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string name) {
  ChatTemplate parsed;
  ES_ASSIGN_OR_RETURN(parsed.body_, ParseTemplate(source, name));
  parsed.name_ = std::move(name);
  parsed.source_bytes_ = source.size();
  return parsed;
}

Result<RenderedChat> ChatTemplate::Render(std::span<const ChatMessage> messages, const ChatVariables& variables) const {
  // Templates look at messages[0] without asking.
  if (messages.empty()) return Status::InvalidArgument("a chat needs at least one message");
  TemplateList list;
  uint64_t bytes = source_bytes_;
  for (const ChatMessage& message : messages) {
    bytes += message.role.size() + message.content.size();
    list.emplace_back(TemplateMap{{"role", TemplateValue(MarkedText(message.role, Origin::kMessage))},
                                  {"content", TemplateValue(MarkedText(message.content, Origin::kMessage))}});
  }
  TemplateMap all = {{"messages", TemplateValue(std::move(list))},
                     {"tools", TemplateValue::None{}},
                     {"add_generation_prompt", TemplateValue(variables.add_generation_prompt)}};
  const auto add = [&all](const char* name, const std::string& text) {
    if (!text.empty()) all.emplace_back(name, TemplateValue(MarkedText(text, Origin::kTemplate)));
  };
  add("bos_token", variables.bos_token);
  add("eos_token", variables.eos_token);
  const TemplateLimits limits{kFreeSteps + kStepsAMessage * messages.size(), kFreeBytes + kCopies * bytes};
  TemplateRenderer renderer(name_, std::move(all), limits);
  ES_ASSIGN_OR_RETURN(const MarkedText rendered, renderer.Render(body_));
  return WithSpans(rendered);
}

ChatVariables VariablesOf(const Tokenizer& tokenizer, bool add_generation_prompt) {
  ChatVariables variables;
  if (tokenizer.bos()) variables.bos_token = tokenizer.Piece(*tokenizer.bos());
  if (tokenizer.eos()) variables.eos_token = tokenizer.Piece(*tokenizer.eos());
  variables.add_generation_prompt = add_generation_prompt;
  return variables;
}

Result<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, const RenderedChat& chat) {
  std::vector<TextPart> parts;
  std::string_view rest = chat.text;
  for (const ChatSpan& span : chat.spans) {
    parts.push_back({rest.substr(0, span.bytes), span.from_template});
    rest.remove_prefix(span.bytes);
  }
  ES_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer.Encode(parts, {.add_special = false}));
  const bool begun = !tokens.empty() && tokens.front() == tokenizer.bos();
  if (tokenizer.add_bos() && !begun) tokens.insert(tokens.begin(), *tokenizer.bos());
  return tokens;
}

}  // namespace estream
