// SPDX-License-Identifier: Apache-2.0
// Conversations as a model was trained to read them: a Jinja template over messages, then tokens.
//
// The template comes with the model and may spell control tokens; messages come from anywhere and may not. Every byte
// of the rendered text is known to be of one or the other, and a control token is recognised only where all of its
// bytes are the template's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estream/chat.h"
#include "estream/status.h"
#include "text/template_tree.h"
#include "text/tokenizer.h"

namespace estream {

// What a template sees beside the messages. Texts that are empty are undefined to it.
struct ChatVariables {
  std::string bos_token, eos_token;
  bool add_generation_prompt = true;
};

struct RenderedChat {
  std::string text;
  std::vector<ChatSpan> spans;  // all of text; neighbours differ in origin
};

// Threads: const members may run at once.
class ChatTemplate {
 public:
  // `name` is what errors call the template: its file, or the key of the model it stands in.
  //
  // Errors: as ParseTemplate.
  static Result<ChatTemplate> Parse(std::string_view source, std::string name);

  // Errors: InvalidArgument without messages, for what the template raises (its words), for values that it uses and
  //         messages do not have; Unsupported for names it calls that are unknown, and beyond the limits.
  // Cost:   at most a million steps and a thousand for each message, and copying 16 MiB and 32 times the bytes of
  // template
  //         and messages.
  Result<RenderedChat> Render(std::span<const ChatMessage> messages, const ChatVariables& variables) const;

 private:
  std::string name_;
  uint64_t source_bytes_ = 0;
  TemplateBody body_;
};

// The template's view of a tokenizer's beginning and end tokens.
ChatVariables VariablesOf(const Tokenizer& tokenizer, bool add_generation_prompt);

// The tokens of a rendered chat. It begins with the beginning token once if the template wrote one or the model's file
// asks for one, and never ends with an end token that the template did not write.
//
// Errors: as Tokenizer::Encode.
Result<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, const RenderedChat& chat);

}  // namespace estream
