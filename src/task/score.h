// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of continuations: how likely a model finds each of several token sequences after a prompt.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estream/engine.h"
#include "estream/status.h"

namespace estream {

// log Σ exp(logits[i]), summed in double, in ascending order of i. NaN when a logit is NaN or +infinity, or when none
// is finite.
double LogSumExp(std::span<const float> logits);

// How to score a fixed set of continuations after any prompt in as few passes as their common beginnings allow.
//
// The continuations form a tree of contexts (what stands between the prompt and a scored token). A leaf of that tree is
// one pass; a context's logits row is asked for once, in the first pass that contains it. So all continuations of one
// token cost one pass and one row, together with any single longer one.
class ContinuationPlan {
 public:
  // Errors: InvalidArgument when there is no continuation, or an empty one.
  static Result<ContinuationPlan> Create(std::span<const std::vector<int32_t>> continuations);

  uint32_t pass_count() const { return static_cast<uint32_t>(passes_.size()); }
  // The most tokens that a pass puts after the prompt.
  uint32_t longest_context() const { return longest_context_; }

  // Σ log P(token | prompt and the tokens before it), one for each continuation, in their order.
  //
  // Errors: as Engine::Prefill; Device when a logits row holds NaN.
  // Cost:   pass_count() passes of prompt.size() + longest_context() tokens or fewer.
  Result<std::vector<double>> Score(Engine* engine, std::span<const int32_t> prompt) const;

 private:
  // A token scored in a row, and the continuation it belongs to.
  struct Target {
    uint32_t continuation;
    int32_t token;
  };
  // The row behind the prompt and the first `depth` tokens of the pass's context.
  struct Row {
    uint32_t depth;
    std::vector<Target> targets;
  };
  struct Pass {
    std::vector<int32_t> context;
    std::vector<Row> rows;  // ascending depth
  };

  Status ScorePass(Engine* engine, std::span<const int32_t> prompt, const Pass& pass, std::span<double> scores) const;

  std::vector<Pass> passes_;
  uint32_t continuation_count_ = 0;
  uint32_t longest_context_ = 0;
};

}  // namespace estream
