// SPDX-License-Identifier: Apache-2.0
// Builds GGUF files for tests, byte by byte; sound by default, since the damaged ones start from sound ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/gguf.h"

namespace estream {

// The little-endian bytes of a number.
template <class T>
std::string WireNumber(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string WireString(std::string_view text) { return WireNumber<uint64_t>(text.size()).append(text); }

class GgufBuilder {
 public:
  explicit GgufBuilder(uint64_t alignment = 32) : alignment_(alignment) {
    if (alignment != 32) Number("general.alignment", GgufValueType::kU32, static_cast<uint32_t>(alignment));
  }

  // A metadata pair whose value is `wire` as it stands.
  GgufBuilder& Raw(std::string_view key, GgufValueType type, std::string_view wire) {
    metadata_ += WireString(key) + WireNumber(static_cast<uint32_t>(type));
    metadata_ += wire;
    ++pair_count_;
    return *this;
  }
  template <class T>
  GgufBuilder& Number(std::string_view key, GgufValueType type, T value) {
    return Raw(key, type, WireNumber(value));
  }
  GgufBuilder& U32(std::string_view key, uint32_t value) { return Number(key, GgufValueType::kU32, value); }
  GgufBuilder& F32(std::string_view key, float value) { return Number(key, GgufValueType::kF32, value); }
  GgufBuilder& Bool(std::string_view key, bool value) { return Number(key, GgufValueType::kBool, uint8_t{value}); }
  GgufBuilder& String(std::string_view key, std::string_view value) {
    return Raw(key, GgufValueType::kString, WireString(value));
  }
  template <class T>
  GgufBuilder& Array(std::string_view key, GgufValueType element, const std::vector<T>& values) {
    std::string wire = WireNumber(static_cast<uint32_t>(element)) + WireNumber<uint64_t>(values.size());
    for (const T& value : values) {
      if constexpr (std::is_convertible_v<T, std::string_view>) {
        wire += WireString(value);
      } else {
        wire += WireNumber(value);
      }
    }
    return Raw(key, GgufValueType::kArray, wire);
  }

  // A tensor right behind the one before. `dims` fastest first.
  GgufBuilder& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, std::string_view data) {
    TensorInfo(name, dims, type, data_.size());
    data_ += data;
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    return *this;
  }
  // The entry alone: its bytes are somebody else's.
  GgufBuilder& TensorInfo(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    tensors_ += WireString(name) + WireNumber(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors_ += WireNumber(dim);
    tensors_ += WireNumber(type) + WireNumber(offset);
    ++tensor_count_;
    return *this;
  }

  // More bytes behind the tensors, as they stand.
  GgufBuilder& Data(std::string_view data) {
    data_ += data;
    return *this;
  }

  std::string Build(uint32_t version = 3) const {
    std::string file = "GGUF" + WireNumber(version) + WireNumber(tensor_count_) + WireNumber(pair_count_);
    file += metadata_ + tensors_;
    file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    return file + data_;
  }

 private:
  const uint64_t alignment_;
  uint64_t pair_count_ = 0;
  uint64_t tensor_count_ = 0;
  std::string metadata_;
  std::string tensors_;
  std::string data_;
};

}  // namespace estream
