// SPDX-License-Identifier: Apache-2.0
// Numbers for people and for programs: durations, sizes, probabilities, JSON lines.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estream/engine.h"
#include "estream/tune.h"

namespace estream {

using Json = nlohmann::ordered_json;

std::string FormatSeconds(double seconds);      // "3.2 ms", "1.25 s", "2 min 05 s"
std::string FormatBytes(uint64_t bytes);        // "512 B", "20.4 MiB"
std::string FormatPercent(double probability);  // " 98.61 %", always eight columns

// `value` on one line with a newline behind it; strings that are not UTF-8 must have gone through ToValidUtf8.
std::string JsonLine(const Json& value);

// [{"name": ..., "bytes": ...}, ...]
Json MemoryJson(const std::vector<MemoryUse>& uses);

// {"group": 2, "banks": 6, "queue_depth": 2, "arena_bytes": ...}
Json ShapeJson(const ExpertShape& shape);

// {"tokens": 1024, "ttft_s": ..., "compute_s", "io_s", "stall_s", "bubble_rate"}
Json PassJson(const PredictedPass& pass);

}  // namespace estream
