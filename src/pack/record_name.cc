// SPDX-License-Identifier: Apache-2.0
// Names are compared in full: no sign, no leading zero, nothing behind.
#include "pack/record_name.h"

#include <charconv>

namespace estream {
namespace {

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

std::optional<uint32_t> TakeNumber(std::string_view* text, uint64_t below) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || value >= below) return std::nullopt;
  const auto digits = static_cast<size_t>(end - text->data());
  if (digits > 1 && text->front() == '0') return std::nullopt;
  text->remove_prefix(digits);
  return value;
}

}  // namespace

std::optional<RecordId> FindRecord(const ModelPlan& plan, std::string_view name) {
  if (name == plan.final_record.name) return RecordId{RecordKind::kFinalNorm};
  if (name == plan.head_record.name) return RecordId{RecordKind::kHead};
  if (!TakePrefix("blk.", &name)) return std::nullopt;
  const auto layer = TakeNumber(&name, plan.layers.size());
  if (!layer) return std::nullopt;
  if (name.empty()) return RecordId{RecordKind::kBlock, *layer};
  if (!TakePrefix(".expert.", &name)) return std::nullopt;
  const auto expert = TakeNumber(&name, plan.experts);
  if (!expert || !name.empty() || !plan.layers[*layer].sparse) return std::nullopt;
  return RecordId{RecordKind::kExpert, *layer, *expert};
}

}  // namespace estream
