// SPDX-License-Identifier: Apache-2.0
// Conversations: what a chat template makes of messages, and which parts of it users wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace estream {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", or what else the template knows
  std::string content;
};

struct ChatOptions {
  std::string template_source;        // Jinja; empty: the model's own (tokenizer.chat_template)
  std::string template_name;          // what error messages call template_source: its file
  bool add_generation_prompt = true;  // end with the beginning of the assistant's answer
};

// A stretch of a rendered chat. Control tokens are recognised in the template's own text only; text of messages stays
// text whatever it spells.
struct ChatSpan {
  size_t bytes = 0;
  bool from_template = false;
};

struct ChatPrompt {
  std::string text;
  std::vector<ChatSpan> spans;  // all of text, in order; neighbours differ in origin
  std::vector<int32_t> tokens;
};

}  // namespace estream
