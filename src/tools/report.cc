// SPDX-License-Identifier: Apache-2.0
// Formatting.
#include "tools/report.h"

#include <fmt/format.h>

#include <cmath>

namespace estream {

std::string FormatSeconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  return fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, unit);
}

std::string FormatPercent(double probability) { return fmt::format("{:6.2f} %", probability * 100); }

std::string JsonLine(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json MemoryJson(const std::vector<MemoryUse>& uses) {
  Json list = Json::array();
  for (const MemoryUse& use : uses) list.push_back({{"name", use.name}, {"bytes", use.bytes}});
  return list;
}

Json ShapeJson(const ExpertShape& shape) {
  return {{"group", shape.group_size},
          {"banks", shape.bank_count},
          {"queue_depth", shape.queue_depth},
          {"arena_bytes", shape.arena_bytes}};
}

Json PassJson(const PredictedPass& pass) {
  return {{"tokens", pass.tokens}, {"ttft_s", pass.ttft_s},   {"compute_s", pass.compute_s},
          {"io_s", pass.io_s},     {"stall_s", pass.stall_s}, {"bubble_rate", pass.bubble_rate}};
}

}  // namespace estream
