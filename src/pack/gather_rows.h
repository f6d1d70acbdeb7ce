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

// Says that these rows will be read soon; may be empty.
using RowHint = std::function<void(uint64_t first, uint64_t rows)>;

// Row i of `out` becomes table row ids[i]; ids may repeat and come in any order.
// All runs are announced before the first is read, so that storage works on many at once: a prompt's rows lie all over
// the table, and one after the other each would cost a whole access.
// Errors: what `read` returns. Pre: ids are not negative; out.size() == ids.size() * row_bytes.
Status GatherRows(std::span<const int32_t> ids, uint64_t row_bytes, const RowReader& read, const RowHint& will_read,
                  std::span<std::byte> out);

}  // namespace estream
