// SPDX-License-Identifier: Apache-2.0
// Conversions of one metadata value; the parser has checked that its bytes are all there.
#include <cstring>
#include <limits>
#include <type_traits>

#include "format/gguf.h"
#include "format/gguf_value_types.h"
#include "format/little_endian.h"

namespace estream {
namespace {

// Calls `use` with the integer of `type` at `p`; nothing for types that are no integers.
template <class Use>
auto WithInteger(GgufValueType type, const std::byte* p, const Use& use) -> decltype(use(uint64_t{})) {
  switch (type) {
    case GgufValueType::kU8:
      return use(LoadLe<uint8_t>(p));
    case GgufValueType::kI8:
      return use(LoadLe<int8_t>(p));
    case GgufValueType::kU16:
      return use(LoadLe<uint16_t>(p));
    case GgufValueType::kI16:
      return use(LoadLe<int16_t>(p));
    case GgufValueType::kU32:
      return use(LoadLe<uint32_t>(p));
    case GgufValueType::kI32:
      return use(LoadLe<int32_t>(p));
    case GgufValueType::kU64:
      return use(LoadLe<uint64_t>(p));
    case GgufValueType::kI64:
      return use(LoadLe<int64_t>(p));
    default:
      return std::nullopt;
  }
}

// `value` as To when To can hold it.
template <class To>
struct Convert {
  template <class From>
  std::optional<To> operator()(From value) const {
    if (!std::in_range<To>(value)) return std::nullopt;
    return static_cast<To>(value);
  }
};

std::optional<double> FloatFrom(GgufValueType type, const std::byte* p) {
  if (type == GgufValueType::kF32) return LoadLe<float>(p);
  if (type == GgufValueType::kF64) return LoadLe<double>(p);
  return std::nullopt;
}

std::string_view StringFrom(const std::byte* p) {
  return {reinterpret_cast<const char*>(p) + 8, static_cast<size_t>(LoadLe<uint64_t>(p))};
}

}  // namespace

const char* GgufValueTypeName(GgufValueType type) {
  static constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

std::optional<uint64_t> GgufValue::AsUint() const { return WithInteger(type_, bytes_.data(), Convert<uint64_t>{}); }

std::optional<int64_t> GgufValue::AsInt() const { return WithInteger(type_, bytes_.data(), Convert<int64_t>{}); }

std::optional<double> GgufValue::AsFloat() const { return FloatFrom(type_, bytes_.data()); }

std::optional<bool> GgufValue::AsBool() const {
  if (type_ != GgufValueType::kBool || bytes_[0] > std::byte{1}) return std::nullopt;
  return bytes_[0] == std::byte{1};
}

std::optional<std::string_view> GgufValue::AsString() const {
  if (type_ != GgufValueType::kString) return std::nullopt;
  return StringFrom(bytes_.data());
}

std::optional<int64_t> GgufValue::IntAt(uint64_t i) const {
  if (type_ != GgufValueType::kArray) return std::nullopt;
  return WithInteger(element_type_, bytes_.data() + i * ScalarBytes(element_type_), Convert<int64_t>{});
}

std::optional<double> GgufValue::FloatAt(uint64_t i) const {
  if (type_ != GgufValueType::kArray) return std::nullopt;
  return FloatFrom(element_type_, bytes_.data() + i * ScalarBytes(element_type_));
}

std::optional<std::vector<std::string_view>> GgufValue::Strings() const {
  if (type_ != GgufValueType::kArray || element_type_ != GgufValueType::kString) return std::nullopt;
  std::vector<std::string_view> strings;
  strings.reserve(count_);
  for (const std::byte* p = bytes_.data(); strings.size() < count_;) {
    strings.push_back(StringFrom(p));
    p += 8 + strings.back().size();
  }
  return strings;
}

}  // namespace estream
