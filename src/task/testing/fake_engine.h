// SPDX-License-Identifier: Apache-2.0
// For tests: a model whose tokens are bytes, and an engine whose logits are a given function of the tokens so far.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "estream/engine.h"

namespace estream::testing {

constexpr uint32_t kFakeVocabulary = 256;

// Ids are byte values; BOS is 1. The letter 'ø' has no tokens, and 'Y' is encoded as 'y'.
class FakeModel final : public Model {
 public:
  const ModelInfo& info() const override { return info_; }
  Result<std::vector<int32_t>> Encode(std::string_view text, const TextOptions& options) const override {
    std::vector<int32_t> ids;
    if (options.add_special) ids.push_back(1);
    for (unsigned char c : text) {
      if (c == 'Y') c = 'y';
      if (c < 0x80) ids.push_back(c);
    }
    return ids;
  }
  Result<ChatPrompt> EncodeChat(std::span<const ChatMessage>, const ChatOptions&) const override {
    return Status::NotFound("the fake model has no chat template");
  }
  std::string Decode(std::span<const int32_t> tokens) const override { return {tokens.begin(), tokens.end()}; }
  std::optional<int32_t> bos() const override { return 1; }

 private:
  ModelInfo info_;
};

// The logit of `token` after `before`.
using FakeLogits = std::function<float(std::span<const int32_t> before, int32_t token)>;

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(FakeLogits logits) : logits_(std::move(logits)) {}

  const Model& model() const override { return model_; }
  std::string device_description() const override { return "fake"; }
  std::string activations() const override { return "f32"; }
  uint32_t max_tokens() const override { return 64; }
  std::vector<MemoryUse> memory() const override { return {}; }
  std::string expert_description() const override { return "none"; }
  std::string TraceJson() const override { return {}; }

  Result<PrefillReport> Prefill(const PrefillRequest& request, const LogitsSink& sink) override {
    prompts.emplace_back(request.tokens.begin(), request.tokens.end());
    std::vector<float> logits(kFakeVocabulary);
    for (uint32_t row : request.rows) {
      ++row_count;
      for (size_t id = 0; id < logits.size(); ++id) {
        logits[id] = logits_(request.tokens.first(row + 1), static_cast<int32_t>(id));
      }
      if (Status status = sink(row, logits); !status.ok()) return status;
    }
    PrefillReport report;
    report.tokens = static_cast<uint32_t>(request.tokens.size());
    return report;
  }

  std::vector<std::vector<int32_t>> prompts;  // of every pass so far
  uint32_t row_count = 0;                     // logits rows given so far

 private:
  FakeModel model_;
  FakeLogits logits_;
};

// Logits without a pattern that depend on every token before, reproducibly.
inline float HashedLogit(std::span<const int32_t> before, int32_t token) {
  uint32_t hash = 2166136261u;
  for (int32_t id : before) hash = (hash ^ static_cast<uint32_t>(id)) * 16777619u;
  hash = (hash ^ static_cast<uint32_t>(token)) * 16777619u;
  return static_cast<float>(hash >> 8) / static_cast<float>(1 << 21) - 4.0f;  // [-4, 4)
}

}  // namespace estream::testing
