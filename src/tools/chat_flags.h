// SPDX-License-Identifier: Apache-2.0
// The flags that make a prompt of a conversation.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "estream/model.h"
#include "tools/outcome.h"

namespace estream {

struct ChatFlags {
  std::string system, user;
  std::string messages_file;
  std::string template_file;
  CLI::Option* system_option = nullptr;
  CLI::Option* user_option = nullptr;
  CLI::Option* messages_option = nullptr;
  CLI::Option* template_option = nullptr;

  // How many sources of a conversation were given: --user, --messages.
  size_t sources() const { return user_option->count() + messages_option->count(); }
};

void AddChatFlags(CLI::App& app, ChatFlags* flags);

// Checks what needs no file: --system belongs to --user, --chat-template to either source.
Outcome CheckChatFlags(const ChatFlags& flags);

// The conversation as the model's template, or that of --chat-template, writes it.  Pre: sources() == 1.
//
//   escapes  read \n and the like in --system and --user
Outcome ReadChat(const ChatFlags& flags, bool escapes, const Model& model, ChatPrompt* prompt);

}  // namespace estream
