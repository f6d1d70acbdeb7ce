// SPDX-License-Identifier: Apache-2.0
// The tree of contexts, walked in lexicographic order, which is its depth-first order.
#include "task/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/macros.h"

namespace estream {
namespace {

bool StartsWith(const std::vector<int32_t>& tokens, const std::vector<int32_t>& beginning) {
  return tokens.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), tokens.begin());
}

}  // namespace

double LogSumExp(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  for (float logit : logits) largest = std::max(largest, logit);
  // Not finite: inf - inf below would be NaN anyway; NaN logits reach the sum.
  if (!std::isfinite(largest)) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

Result<ContinuationPlan> ContinuationPlan::Create(std::span<const std::vector<int32_t>> continuations) {
  if (continuations.empty()) return Status::InvalidArgument("there is no continuation to score");
  ContinuationPlan plan;
  plan.continuation_count_ = static_cast<uint32_t>(continuations.size());

  std::map<std::vector<int32_t>, std::vector<Target>> contexts;
  for (uint32_t c = 0; c < continuations.size(); ++c) {
    const std::vector<int32_t>& tokens = continuations[c];
    if (tokens.empty()) return Status::InvalidArgument(fmt::format("continuation {} has no tokens", c));
    for (size_t depth = 0; depth < tokens.size(); ++depth) {
      contexts[{tokens.begin(), tokens.begin() + depth}].push_back({c, tokens[depth]});
    }
  }
  // Every prefix of a context is a context, so a context has children exactly when the next one in order extends it,
  // and the contexts between one leaf and the next lie on the path to the latter.
  std::vector<Row> path;
  for (auto it = contexts.begin(); it != contexts.end(); ++it) {
    path.push_back({static_cast<uint32_t>(it->first.size()), std::move(it->second)});
    const auto next = std::next(it);
    if (next != contexts.end() && StartsWith(next->first, it->first)) continue;
    plan.longest_context_ = std::max(plan.longest_context_, path.back().depth);
    plan.passes_.push_back({it->first, std::move(path)});
    path.clear();
  }
  return plan;
}

Result<std::vector<double>> ContinuationPlan::Score(Engine* engine, std::span<const int32_t> prompt) const {
  if (prompt.empty()) return Status::InvalidArgument("the prompt has no tokens");
  std::vector<double> scores(continuation_count_, 0.0);
  for (const Pass& pass : passes_) ES_RETURN_IF_ERROR(ScorePass(engine, prompt, pass, scores));
  return scores;
}

Status ContinuationPlan::ScorePass(Engine* engine, std::span<const int32_t> prompt, const Pass& pass,
                                   std::span<double> scores) const {
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  tokens.insert(tokens.end(), pass.context.begin(), pass.context.end());
  std::vector<uint32_t> rows;
  for (const Row& row : pass.rows) rows.push_back(static_cast<uint32_t>(prompt.size() - 1 + row.depth));

  size_t next = 0;  // rows arrive in the order in which they were asked for
  const auto sink = [&](uint32_t row, std::span<const float> logits) -> Status {
    if (next == rows.size() || rows[next] != row) {
      return Status::Internal(fmt::format("the engine gave logits of row {}, which nobody asked for", row));
    }
    const double normalizer = LogSumExp(logits);
    if (std::isnan(normalizer)) return Status::Device(fmt::format("the logits of row {} are not finite", row));
    for (const Target& target : pass.rows[next].targets) {
      if (target.token < 0 || static_cast<size_t>(target.token) >= logits.size()) {
        return Status::InvalidArgument(
            fmt::format("token {} is outside the vocabulary of {}", target.token, logits.size()));
      }
      scores[target.continuation] += logits[target.token] - normalizer;
    }
    ++next;
    return Status::Ok();
  };
  ES_RETURN_IF_ERROR(engine->Prefill({.tokens = tokens, .rows = rows}, sink).status());
  if (next != rows.size()) return Status::Internal(fmt::format("the engine gave {} of {} rows", next, rows.size()));
  return Status::Ok();
}

}  // namespace estream
