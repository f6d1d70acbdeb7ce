// SPDX-License-Identifier: Apache-2.0
// What the mixers of a layer add to the residual, in double, without the residual itself.
#pragma once

#include <cstdint>
#include <span>

#include "device/reference/reference_math.h"

namespace estream::reference {

//   x        [tokens, hidden] the residual; positions count from 0
//   rows     ascending token indices
//   record   start of the layer's block record
//   returns  [rows.size(), hidden]
Matrix Mix(const AttentionSpec& spec, const std::byte* record, Matrix x, std::span<const uint32_t> rows);
Matrix Mix(const LatentAttentionSpec& spec, const std::byte* record, Matrix x, std::span<const uint32_t> rows);
Matrix Mix(const ShortConvSpec& spec, const std::byte* record, Matrix x, std::span<const uint32_t> rows);

}  // namespace estream::reference
