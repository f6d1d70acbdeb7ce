// SPDX-License-Identifier: Apache-2.0
// Fuzzing chat templates: any template over any messages renders or is refused in one sentence, within its limits, and
// what messages wrote stays known as theirs.
//
// Input: byte 0 says whether an answer is asked for (1), the vocabulary adds a beginning (2) and there are beginning
// and end tokens at all (4). The rest is parts between bytes 0x1E: the template, then role, content, role, content, ...
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/chat_template.h"

namespace estream {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// All bytes, and what the templates of the supported families spell.
Tokenizer MakeTokenizer(bool has_ends, bool add_bos) {
  VocabularySpec spec;
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) {
    const char as_char = static_cast<char>(byte);
    AppendAsLetters({&as_char, 1}, &texts.emplace_back());
  }
  spec.types.assign(256, TokenType::kNormal);
  for (const char* control : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
    texts.emplace_back(control);
    spec.types.push_back(TokenType::kControl);
  }
  spec.tokens.assign(texts.begin(), texts.end());
  spec.origin = "fuzz";
  spec.pre = "qwen2";
  spec.add_bos = has_ends && add_bos;
  if (has_ends) spec.bos = 256, spec.eos = 257;
  return Tokenizer::FromSpec(spec, {}).value();
}

const Tokenizer& TokenizerFor(bool has_ends, bool add_bos) {
  static std::optional<Tokenizer> made[2][2];
  std::optional<Tokenizer>& tokenizer = made[has_ends][add_bos];
  if (!tokenizer) tokenizer.emplace(MakeTokenizer(has_ends, add_bos));
  return *tokenizer;
}

std::vector<std::string> Parts(std::string_view input) {
  std::vector<std::string> parts(1);
  for (const char c : input) {
    if (c == '\x1E') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void CheckRefusal(const Status& status) {
  Check(!status.message().empty() && status.message().size() < 300);
  Check(status.message().find('\n') == std::string::npos);
}

// The spans cover the text in turns, and the parts that are the messages' are made of bytes of messages.
void CheckSpans(const RenderedChat& chat, const std::vector<std::string>& message_parts) {
  bool known[256] = {};
  for (const std::string& part : message_parts) {
    for (const char c : part) known[static_cast<uint8_t>(c)] = true;
  }
  size_t at = 0;
  for (size_t i = 0; i < chat.spans.size(); ++i) {
    const ChatSpan& span = chat.spans[i];
    Check(span.bytes > 0 && span.bytes <= chat.text.size() - at);
    Check(i == 0 || span.from_template != chat.spans[i - 1].from_template);
    for (const size_t end = at + span.bytes; at < end; ++at) {
      Check(span.from_template || known[static_cast<uint8_t>(chat.text[at])]);
    }
  }
  Check(at == chat.text.size());
}

void RunOne(std::string_view input) {
  const int choice = static_cast<uint8_t>(input[0]);
  std::vector<std::string> parts = Parts(input.substr(1));
  const std::string source = std::move(parts[0]);
  parts.erase(parts.begin());
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) messages.push_back({parts[i], parts[i + 1]});

  const Tokenizer& tokenizer = TokenizerFor((choice & 4) != 0, (choice & 2) != 0);
  const Result<ChatTemplate> parsed = ChatTemplate::Parse(source, "fuzz");
  if (!parsed.ok()) return CheckRefusal(parsed.status());
  const Result<RenderedChat> chat = parsed->Render(messages, VariablesOf(tokenizer, (choice & 1) != 0));
  if (!chat.ok()) return CheckRefusal(chat.status());
  CheckSpans(*chat, parts);

  const Result<std::vector<int32_t>> tokens = EncodeChat(tokenizer, *chat);
  Check(tokens.ok());
  const std::string decoded = tokenizer.Decode(*tokens);
  Check(decoded == chat->text || decoded == "<s>" + chat->text);
  // Were the template's bytes blank, no control token would be there but the one put in front.
  RenderedChat blanked = *chat;
  size_t at = 0;
  for (const ChatSpan& span : blanked.spans) {
    if (span.from_template) blanked.text.replace(at, span.bytes, span.bytes, ' ');
    at += span.bytes;
  }
  const Result<std::vector<int32_t>> without = EncodeChat(tokenizer, blanked);
  Check(without.ok());
  for (size_t i = 0; i < without->size(); ++i) Check((*without)[i] < 256 || (i == 0 && (*without)[0] == 256));
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) estream::RunOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
