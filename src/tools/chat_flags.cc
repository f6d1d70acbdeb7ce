// SPDX-License-Identifier: Apache-2.0
// From flags and files to messages; the library does the rest.
#include "tools/chat_flags.h"

#include <fmt/format.h>

#include "base/macros.h"
#include "format/file.h"
#include "format/quote.h"
#include "tools/chat_messages.h"
#include "tools/flag_text.h"

namespace estream {
namespace {

constexpr uint64_t kMaxMessagesBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxTemplateFileBytes = uint64_t{1} << 20;

Result<std::vector<ChatMessage>> ReadMessages(const ChatFlags& flags, bool escapes) {
  if (flags.messages_option->count() == 1) {
    ES_ASSIGN_OR_RETURN(const std::string json, ReadTextFile(flags.messages_file, kMaxMessagesBytes));
    Result<std::vector<ChatMessage>> messages = ParseChatMessages(json);
    if (!messages.ok()) return messages.status().WithPrefix(ShownPath(flags.messages_file) + ": ");
    return messages;
  }
  const auto text = [escapes](const std::string& flag) { return escapes ? Unescape(flag) : flag; };
  std::vector<ChatMessage> messages;
  if (flags.system_option->count() == 1) messages.push_back({"system", text(flags.system)});
  messages.push_back({"user", text(flags.user)});
  return messages;
}

}  // namespace

void AddChatFlags(CLI::App& app, ChatFlags* flags) {
  flags->user_option =
      app.add_option("--user", flags->user, "The prompt as a user's message in the model's chat template")
          ->type_name("TEXT");
  flags->system_option =
      app.add_option("--system", flags->system, "With --user: a system message in front")->type_name("TEXT");
  flags->messages_option =
      app.add_option("--messages", flags->messages_file,
                     "The prompt as a conversation: a JSON array of {\"role\": ..., \"content\": ...}")
          ->type_name("FILE.json");
  flags->template_option = app.add_option("--chat-template", flags->template_file,
                                          "With --user or --messages: this Jinja template instead of the model's")
                               ->type_name("FILE");
}

Outcome CheckChatFlags(const ChatFlags& flags) {
  if (flags.system_option->count() == 1 && flags.user_option->count() == 0) {
    return Outcome::Usage("--system needs --user");
  }
  if (flags.template_option->count() == 1 && flags.sources() == 0) {
    return Outcome::Usage("--chat-template needs --user or --messages");
  }
  return Outcome::Ok();
}

Outcome ReadChat(const ChatFlags& flags, bool escapes, const Model& model, ChatPrompt* prompt) {
  ES_ASSIGN_OR_RETURN(const std::vector<ChatMessage> messages, ReadMessages(flags, escapes));
  ChatOptions options;
  if (flags.template_option->count() == 1) {
    ES_ASSIGN_OR_RETURN(options.template_source, ReadTextFile(flags.template_file, kMaxTemplateFileBytes));
    options.template_name = ShownPath(flags.template_file);
    if (options.template_source.empty()) {
      return Status::InvalidArgument(fmt::format("{} holds no template", options.template_name));
    }
  }
  ES_ASSIGN_OR_RETURN(*prompt, model.EncodeChat(messages, options));
  return Outcome::Ok();
}

}  // namespace estream
