// SPDX-License-Identifier: Apache-2.0
// Blocks of rows in parallel: norm, logits, then each row's choice.
#include "device/cpu/router.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>

#include "device/cpu/record_part.h"
#include "kernels/activation.h"
#include "kernels/norm.h"
#include "kernels/router.h"

namespace estream {
namespace {

constexpr uint32_t kRowsAtOnce = 8;  // at most: the more, the less often the matrix is read
constexpr uint32_t kNoRow = ~uint32_t{0};

bool AllFinite(const float* values, uint32_t n) {
  return std::all_of(values, values + n, [](float v) { return std::isfinite(v); });
}

void LowerTo(std::atomic<uint32_t>* lowest, uint32_t value) {
  uint32_t seen = lowest->load();
  while (value < seen && !lowest->compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

RouterOp::RouterOp(const RouterSpec& spec, const Capacity&, ScratchPlan* plan) : spec_(spec) {
  logits_ = plan->PerThread<float>(uint64_t{kRowsAtOnce} * spec.experts);
  scores_ = plan->PerThread<float>(spec.experts);
  chosen_ = plan->PerThread<uint32_t>(spec.top_k);
}

Status RouterOp::Run(const CpuContext& context, const BoundBlockCall& call) const {
  const float* const norm = Values(spec_.norm, call.weights);
  const float* const router = Values(spec_.router, call.weights);
  const float* const bias = spec_.bias.count > 0 ? Values(spec_.bias, call.weights) : nullptr;
  const uint64_t hidden = spec_.hidden;
  std::atomic<uint32_t> bad_row{kNoRow};
  const auto at_once = std::clamp(static_cast<uint32_t>(CeilDiv(call.rows, context.pool->threads())), 1u, kRowsAtOnce);
  context.pool->Run(CeilDiv(call.rows, at_once), [&](uint32_t thread, uint64_t item) {
    const auto first = static_cast<uint32_t>(item * at_once);
    const uint32_t rows = std::min(at_once, call.rows - first);
    float* const logits = logits_.at(context.scratch, thread);
    for (uint32_t row = first; row < first + rows; ++row) {
      RmsNorm(call.in + row * hidden, norm, hidden, spec_.norm_epsilon, call.out + row * hidden);
    }
    RouterLogits(call.out + first * hidden, hidden, rows, router, spec_.hidden, spec_.experts, logits);
    for (uint32_t r = 0; r < rows; ++r) {
      const uint32_t row = first + r;
      const bool chosen =
          Choose(logits + uint64_t{r} * spec_.experts, scores_.at(context.scratch, thread),
                 chosen_.at(context.scratch, thread), bias, row, call.routes + uint64_t{row} * spec_.top_k);
      if (!chosen) LowerTo(&bad_row, row);
    }
  });
  if (bad_row == kNoRow) return Status::Ok();
  return Status::Device(fmt::format("router logit of row {} is not finite", bad_row.load()));
}

// Writes the routes of one row from its logits, which become probabilities. False when a logit, or its sum with the
// bias, is not finite.
bool RouterOp::Choose(float* p, float* scores, uint32_t* chosen, const float* bias, uint32_t row, Route* routes) const {
  if (!AllFinite(p, spec_.experts)) return false;
  if (spec_.gating == Gating::kSigmoid) {
    Sigmoid(p, spec_.experts);
  } else {
    Softmax(p, spec_.experts);
  }
  const float* by = p;
  if (bias != nullptr) {
    Add(p, bias, spec_.experts, scores);
    if (!AllFinite(scores, spec_.experts)) return false;
    by = scores;
  }
  TopK(by, spec_.experts, spec_.top_k, chosen);
  float divisor = 1;
  if (spec_.renormalize != 0) {
    divisor = 0;
    for (uint32_t i = 0; i < spec_.top_k; ++i) divisor += p[chosen[i]];
  }
  for (uint32_t i = 0; i < spec_.top_k; ++i) routes[i] = {chosen[i], row, p[chosen[i]] / divisor * spec_.scale};
  return true;
}

}  // namespace estream
