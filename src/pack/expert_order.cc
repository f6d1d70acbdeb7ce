// SPDX-License-Identifier: Apache-2.0
// One line at a time; each becomes the order of the next sparse layer.
#include "pack/expert_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/macros.h"
#include "format/file.h"
#include "format/quote.h"
#include "pack/pack_keys.h"
#include "pack/pack_layout.h"

namespace estream {
namespace {

constexpr std::string_view kSeparators = " \t\r,;";
constexpr uint64_t kMaxFileBytes = 64 << 20;  // 1024 layers of 4096 experts are below 24 MB

// The numbers of one line. Errors: InvalidArgument without the place.
Result<std::vector<uint32_t>> ParseLine(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<uint32_t> numbers;
  for (;;) {
    const size_t begin = line.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return numbers;
    line.remove_prefix(begin);
    const std::string_view word = line.substr(0, line.find_first_of(kSeparators));
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) {
      return Status::InvalidArgument(fmt::format("holds {}, expected indices of experts", Quoted(word)));
    }
    numbers.push_back(number);
    line.remove_prefix(word.size());
  }
}

Status CheckOrder(const std::vector<uint32_t>& order, uint32_t experts) {
  if (order.size() != experts) {
    return Status::InvalidArgument(fmt::format("has {} indices, expected {}", order.size(), experts));
  }
  const Status status = CheckPermutation(order);
  return status.ok() ? status : Status::InvalidArgument(status.message());
}

}  // namespace

Status ParseExpertOrder(std::string_view text, const std::string& name, ModelPlan* plan) {
  const std::vector<uint32_t>& layers = plan->sparse_layers;
  size_t found = 0;
  for (uint64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto place = [&] { return fmt::format("{}: line {} ", ShownPath(name), line); };
    Result<std::vector<uint32_t>> order = ParseLine(text.substr(0, end));
    if (!order.ok()) return order.status().WithPrefix(place());
    text.remove_prefix(std::min(end + 1, text.size()));
    if (order->empty()) continue;
    if (found == layers.size()) {
      return Status::InvalidArgument(
          fmt::format("{}is one too many for {} layers with experts", place(), layers.size()));
    }
    if (const Status status = CheckOrder(*order, plan->experts); !status.ok()) return status.WithPrefix(place());
    plan->layers[layers[found++]].expert_order = std::move(*order);
  }
  if (found != layers.size()) {
    return Status::InvalidArgument(
        fmt::format("{}: orders {} layers, the model has {} with experts", ShownPath(name), found, layers.size()));
  }
  const bool identity = std::all_of(layers.begin(), layers.end(), [&](uint32_t l) {
    return std::is_sorted(plan->layers[l].expert_order.begin(), plan->layers[l].expert_order.end());
  });
  if (!identity) return Status::Ok();
  for (const uint32_t l : layers) plan->layers[l].expert_order.clear();
  return Status::Ok();
}

Status LoadExpertOrder(const std::string& path, ModelPlan* plan) {
  ES_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxFileBytes));
  return ParseExpertOrder(text, path == "-" ? "standard input" : path, plan);
}

}  // namespace estream
