// SPDX-License-Identifier: Apache-2.0
// Writing GGUF v3: everything before the tensor data, with all offsets known before the first byte of data exists.
//
// Set keys and add tensors in the order they shall have in the file, write Header(), then each tensor's bytes followed
// by Padding(bytes) zeros. The sizes alone decide the header, so data may stream to a pipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "format/gguf.h"

namespace estream {

class GgufWriter {
 public:
  // Pre: `alignment` is a power of two, at least 8. One other than 32 is recorded as general.alignment.
  explicit GgufWriter(uint64_t alignment = 32);

  // Sets `key`; one set before keeps its place and changes its value. Pre: 1..65535 bytes of key.
  void SetU32(std::string_view key, uint32_t value) { SetNumber(key, value); }
  void SetU64(std::string_view key, uint64_t value) { SetNumber(key, value); }
  void SetI32(std::string_view key, int32_t value) { SetNumber(key, value); }
  void SetI64(std::string_view key, int64_t value) { SetNumber(key, value); }
  void SetF32(std::string_view key, float value) { SetNumber(key, value); }
  void SetBool(std::string_view key, bool value) { SetNumber(key, value); }
  void SetString(std::string_view key, std::string_view value);
  void SetStrings(std::string_view key, std::span<const std::string> values);
  template <class T>
  void SetArray(std::string_view key, std::span<const T> values) {
    SetWire(key, GgufValueType::kArray, TypeOf<T>(), values.size(), std::as_bytes(values));
  }
  // A value as another file has it. general.alignment is left out: this file has its own.
  void SetValue(std::string_view key, const GgufValue& value);

  // Adds a tensor behind the last one. `dims` fastest first.
  //
  //   returns  the offset of its first byte in the data section, which begins at Header().size()
  //
  // Pre: a new name of 1..63 bytes; 1..4 dimensions, none 0, whose product was checked; a type GGUF defines; whole
  // blocks.
  uint64_t AddTensor(std::string_view name, std::span<const uint64_t> dims, uint32_t gguf_type);

  // Tensors in file order; offsets are those in the data section.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  // Zero bytes that must follow `bytes` bytes of tensor data.
  uint64_t Padding(uint64_t bytes) const { return AlignUp(bytes, alignment_) - bytes; }
  // The data section's size, the last tensor's padding included.
  uint64_t data_bytes() const { return data_bytes_; }

  // The file up to the data section, padded to the alignment.
  std::vector<std::byte> Header() const;

 private:
  template <class T>
  static constexpr GgufValueType TypeOf() {
    if constexpr (std::is_same_v<T, bool>) return GgufValueType::kBool;
    if constexpr (std::is_same_v<T, uint8_t>) return GgufValueType::kU8;
    if constexpr (std::is_same_v<T, int8_t>) return GgufValueType::kI8;
    if constexpr (std::is_same_v<T, uint16_t>) return GgufValueType::kU16;
    if constexpr (std::is_same_v<T, int16_t>) return GgufValueType::kI16;
    if constexpr (std::is_same_v<T, uint32_t>) return GgufValueType::kU32;
    if constexpr (std::is_same_v<T, int32_t>) return GgufValueType::kI32;
    if constexpr (std::is_same_v<T, uint64_t>) return GgufValueType::kU64;
    if constexpr (std::is_same_v<T, int64_t>) return GgufValueType::kI64;
    if constexpr (std::is_same_v<T, float>) return GgufValueType::kF32;
    if constexpr (std::is_same_v<T, double>) return GgufValueType::kF64;
  }
  template <class T>
  void SetNumber(std::string_view key, T value) {
    SetWire(key, TypeOf<T>(), GgufValueType::kU8, 1, std::as_bytes(std::span(&value, 1)));
  }
  // `element` and `count` are those of an array; unused for others.
  void SetWire(std::string_view key, GgufValueType type, GgufValueType element, uint64_t count,
               std::span<const std::byte> wire);

  const uint64_t alignment_;
  std::vector<std::pair<std::string, std::vector<std::byte>>> metadata_;  // key; value type and value as in the file
  std::map<std::string, size_t, std::less<>> metadata_index_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
  uint64_t data_bytes_ = 0;
};

}  // namespace estream
