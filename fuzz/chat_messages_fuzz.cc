// SPDX-License-Identifier: Apache-2.0
// Fuzzing files of conversations: any bytes are messages, or refused in one sentence; messages written as JSON come
// back.
//
// Input: the file.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tools/chat_messages.h"

namespace estream {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void RunOne(std::string_view input) {
  const auto messages = ParseChatMessages(input);
  if (!messages.ok()) {
    const std::string message = messages.status().message();
    return Check(!message.empty() && message.size() < 200 && message.find('\n') == std::string::npos);
  }
  nlohmann::json written = nlohmann::json::array();
  for (const ChatMessage& message : *messages) {
    nlohmann::json& object = written.emplace_back();
    object["role"] = message.role;
    object["content"] = message.content;
  }
  const auto again = ParseChatMessages(written.dump());
  Check(again.ok() && again->size() == messages->size());
  for (size_t i = 0; i < again->size(); ++i) {
    Check((*again)[i].role == (*messages)[i].role && (*again)[i].content == (*messages)[i].content);
  }
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estream::RunOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
