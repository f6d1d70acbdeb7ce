// SPDX-License-Identifier: Apache-2.0
// Rows in parallel, each by one kernel call.
#include "device/cpu/row_ops.h"

#include "device/cpu/record_part.h"
#include "format/weight_format.h"
#include "kernels/norm.h"

namespace estream {

Status EmbeddingOp::Run(const CpuContext& context, const BoundBlockCall& call) const {
  const uint64_t row_bytes = RowBytes(spec_.format, spec_.hidden);
  ForEachRow(context, call.tokens, [&](uint32_t, uint32_t row) {
    DequantizeRow(spec_.format, call.weights + row * row_bytes, call.out + uint64_t{row} * spec_.hidden, spec_.hidden);
  });
  return Status::Ok();
}

Status NormOp::Run(const CpuContext& context, const BoundBlockCall& call) const {
  const float* weight = Values(spec_.norm, call.weights);
  ForEachRow(context, call.rows, [&](uint32_t, uint32_t row) {
    RmsNorm(call.in + uint64_t{call.row_id(row)} * spec_.hidden, weight, spec_.hidden, spec_.epsilon,
            call.out + uint64_t{row} * spec_.hidden);
  });
  return Status::Ok();
}

}  // namespace estream
