// SPDX-License-Identifier: Apache-2.0
// A model file opened for reading: what it is, and its tokenizer. No weights are loaded here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estream/chat.h"
#include "estream/status.h"

namespace estream {

// The sizes of a model, from its metadata (names after GGUF's keys).
struct ModelInfo {
  std::string path;
  std::string architecture;  // "olmoe"
  std::string name;          // general.name, or empty
  uint32_t layers = 0;
  uint32_t sparse_layers = 0;  // layers with routed experts
  uint32_t hidden = 0;
  uint32_t experts = 0;  // a sparse layer
  uint32_t top_k = 0;
  uint32_t vocabulary = 0;
  uint32_t context = 0;  // longest prompt in tokens
  uint64_t file_bytes = 0;
  bool is_pack = false;  // experts can stream from it
};

struct ModelOptions {
  std::string override_pre;  // use this pre-tokenizer instead of the file's; empty: the file's
};

struct TextOptions {
  bool add_special = true;     // put BOS in front (and EOS behind) where the model's vocabulary asks for it
  bool parse_special = false;  // read the text of control tokens as those tokens; never for user content
};

class Model {
 public:
  // Opens a GGUF file (any part of a split set), checks metadata, shapes and extents of every tensor it needs, and
  // builds the tokenizer.
  //
  // Errors: one sentence with the file and the field: NotFound, Io, Corrupt, Unsupported.
  static Result<std::shared_ptr<const Model>> Open(const std::string& path, const ModelOptions& options = {});
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // Token ids of `text`. Errors: InvalidArgument when the vocabulary cannot express it.
  virtual Result<std::vector<int32_t>> Encode(std::string_view text, const TextOptions& options = {}) const = 0;
  // The text that a chat template makes of `messages`, and its tokens. Control tokens come from the template only,
  // never from what messages spell. The beginning token is there once if the template or the vocabulary asks for it.
  //
  // Errors: InvalidArgument without messages, and in the template's own words when it refuses them; NotFound without a
  // template in the model or `options`; Corrupt or Unsupported, with the line, for one that cannot be used.
  virtual Result<ChatPrompt> EncodeChat(std::span<const ChatMessage> messages,
                                        const ChatOptions& options = {}) const = 0;
  // The bytes of `tokens`; not necessarily valid UTF-8. Ids outside the vocabulary give nothing.
  virtual std::string Decode(std::span<const int32_t> tokens) const = 0;
  virtual std::optional<int32_t> bos() const = 0;
};

}  // namespace estream
