// SPDX-License-Identifier: Apache-2.0
// Touches everything an open GGUF file offers, so that a sanitizer sees every byte an accessor would.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/gguf.h"

namespace estream {

inline uint64_t WalkValue(const GgufValue& value) {
  uint64_t sum = value.AsUint().value_or(1) + static_cast<uint64_t>(value.AsInt().value_or(1));
  sum += value.AsFloat().has_value() + value.AsBool().has_value();
  if (const auto text = value.AsString()) {
    for (const char c : *text) sum += static_cast<uint8_t>(c);
  }
  if (const auto strings = value.Strings()) {
    for (const auto& text : *strings) {
      for (const char c : text) sum += static_cast<uint8_t>(c);
    }
  } else if (value.type() == GgufValueType::kArray) {
    for (uint64_t i = 0; i < value.count(); ++i) {
      sum += static_cast<uint64_t>(value.IntAt(i).value_or(1)) + value.FloatAt(i).has_value();
    }
  }
  for (const std::byte b : value.bytes()) sum += static_cast<uint64_t>(b);
  return sum;
}

// Every value through every accessor, every look-up, the first and last bytes of every tensor. The result is
// meaningless but depends on all of it.
inline uint64_t WalkGguf(const Gguf& gguf) {
  uint64_t sum = gguf.version() + gguf.alignment() + gguf.file_bytes();
  for (const auto& [key, value] : gguf.metadata()) {
    sum += WalkValue(value) + (gguf.Find(key) == &value);
    sum += gguf.Uint(key, 0, UINT64_MAX).ok() + gguf.Float(key).ok() + gguf.BoolOr(key, false).ok();
    sum += gguf.String(key).ok() + GgufValueTypeName(value.type())[0];
  }
  std::byte bytes[64];
  for (const GgufTensor& tensor : gguf.tensors()) {
    sum += gguf.FindTensor(tensor.name) == &tensor;
    sum += tensor.cols() + tensor.rows() + GgufTypeName(tensor.gguf_type)->size();
    const uint64_t count = std::min<uint64_t>(sizeof(bytes), tensor.bytes);
    for (const uint64_t offset : {uint64_t{0}, tensor.bytes - count}) {
      if (!gguf.ReadTensor(tensor, offset, std::span(bytes, count)).ok()) continue;
      for (uint64_t i = 0; i < count; ++i) sum += static_cast<uint64_t>(bytes[i]);
    }
  }
  return sum;
}

}  // namespace estream
