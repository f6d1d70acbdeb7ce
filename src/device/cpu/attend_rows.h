// SPDX-License-Identifier: Apache-2.0
// The parallel loops of attention that its variants share: storing key blocks, attending a block of query rows.
#pragma once

#include <algorithm>

#include "device/cpu/cpu_context.h"
#include "device/cpu/key_value.h"
#include "device/cpu/scratch.h"

namespace estream {

// Scratch of AttendRowBlock for `group` query heads a key/value head; `half`: as the keys and values are kept.
struct AttendPlan {
  AttendPlan() = default;
  AttendPlan(uint32_t group_heads, uint64_t key_dim, uint64_t value_dim, bool half, ScratchPlan* plan)
      : group(group_heads) {
    scores = plan->PerThread<float>(kQueryRows * kKeyBlock);
    sums = plan->PerThread<float>(group * uint64_t{kQueryRows} * KeyValue::PaddedDim(value_dim));
    softmax_state = plan->PerThread<float>(2 * group * uint64_t{kQueryRows});
    if (!half) return;
    keys = plan->PerThread<float>(key_dim * kKeyBlock);
    values = plan->PerThread<float>(KeyValue::PaddedDim(value_dim) * kKeyBlock);
  }

  uint32_t group = 1;
  ScratchArray<float> scores;
  ScratchArray<float> sums;
  ScratchArray<float> softmax_state;  // max, then sum
  ScratchArray<float> keys;           // a block of each as floats
  ScratchArray<float> values;
};

// Replaces `for every key/value head, for every block of 64 of rows [0, count): body(head, block, first row, rows)`.
// Row 0 is position `first_position`, the beginning of a block.
template <class Body>
void ForEachKeyBlock(const CpuContext& context, const KeyValue& kv, uint32_t first_position, uint32_t count,
                     const Body& body) {
  const TraceSpan part = context.Part("attention");
  context.pool->Run(CeilDiv(count, kKeyBlock) * kv.kv_heads, [&](uint32_t, uint64_t item) {
    const auto head = static_cast<uint32_t>(item % kv.kv_heads);
    const auto r = static_cast<uint32_t>(item / kv.kv_heads) * kKeyBlock;
    body(head, (first_position + r) / kKeyBlock, r, std::min(kKeyBlock, count - r));
  });
}

// Attention of `rows` query rows, all heads; items are (key/value head, block of query rows).
//
//   position(r)  of row r, ascending
//   q            [rows, heads * key_dim], out [rows, heads * value_dim]; out may be q when the dims are equal
template <class Position>
void AttendRowBlock(const CpuContext& context, const AttendPlan& plan, const KeyValue& kv, float scale, uint32_t rows,
                    const Position& position, const float* q, size_t q_stride, float* out, size_t out_stride) {
  const TraceSpan part = context.Part("attention");
  context.pool->Run(CeilDiv(rows, kQueryRows) * kv.kv_heads, [&](uint32_t thread, uint64_t item) {
    const uint64_t head = item % kv.kv_heads * plan.group;  // the first of the group
    const auto first = static_cast<uint32_t>(item / kv.kv_heads) * kQueryRows;
    const uint32_t count = std::min(kQueryRows, rows - first);
    uint32_t positions[kQueryRows];
    for (uint32_t r = 0; r < count; ++r) positions[r] = position(first + r);
    AttendScratch scratch;
    scratch.scores = plan.scores.at(context.scratch, thread);
    scratch.out = plan.sums.at(context.scratch, thread);
    scratch.max = plan.softmax_state.at(context.scratch, thread);
    scratch.sum = scratch.max + uint64_t{plan.group} * kQueryRows;
    scratch.keys = plan.keys.at(context.scratch, thread);
    scratch.values = plan.values.at(context.scratch, thread);
    Attend(kv, static_cast<uint32_t>(item % kv.kv_heads), plan.group, positions, count, scale,
           q + first * q_stride + head * kv.key_dim, q_stride, out + first * out_stride + head * kv.value_dim,
           out_stride, scratch);
  });
}

}  // namespace estream
