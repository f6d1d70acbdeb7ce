// SPDX-License-Identifier: Apache-2.0
// Gathering rows of a table by their numbers: each read once, neighbours together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "estream/status.h"

namespace estream {

// Reads table rows [first, first + rows) into `out`.
using RowReader = std::function<Status(uint64_t first, uint64_t rows, std::span<std::byte> out)>;

// Row i of `out` becomes table row ids[i]; ids may repeat and come in any order.
// Errors: what `read` returns. Pre: ids are not negative; out.size() == ids.size() * row_bytes.
Status GatherRows(std::span<const int32_t> ids, uint64_t row_bytes, const RowReader& read, std::span<std::byte> out);

}  // namespace estream
