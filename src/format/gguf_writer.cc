// SPDX-License-Identifier: Apache-2.0
// The layout written here is the one gguf.h describes and GgufParser reads.
#include "format/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/macros.h"
#include "format/gguf_types.h"

namespace estream {
namespace {

constexpr uint64_t kDefaultAlignment = 32;  // what readers assume without general.alignment
constexpr std::string_view kAlignmentKey = "general.alignment";

// Not insert(): g++ 12 sees an overflow in it that is not there.
void Append(std::span<const std::byte> bytes, std::vector<std::byte>* out) {
  if (bytes.empty()) return;
  const size_t end = out->size();
  out->resize(end + bytes.size());
  std::memcpy(out->data() + end, bytes.data(), bytes.size());
}

template <class T>
void AppendNumber(T value, std::vector<std::byte>* out) {
  static_assert(std::endian::native == std::endian::little, "GGUF is written as this machine stores numbers");
  Append(std::as_bytes(std::span(&value, 1)), out);
}

void AppendString(std::string_view text, std::vector<std::byte>* out) {
  AppendNumber<uint64_t>(text.size(), out);
  Append(std::as_bytes(std::span(text)), out);
}

}  // namespace

GgufWriter::GgufWriter(uint64_t alignment) : alignment_(alignment) {
  ES_CHECK(std::has_single_bit(alignment) && alignment >= 8);
  if (alignment != kDefaultAlignment) SetU32(kAlignmentKey, static_cast<uint32_t>(alignment));
}

void GgufWriter::SetWire(std::string_view key, GgufValueType type, GgufValueType element, uint64_t count,
                         std::span<const std::byte> wire) {
  ES_CHECK(!key.empty() && key.size() <= kMaxGgufKeyBytes);
  std::vector<std::byte> value;
  value.reserve(wire.size() + 16);
  AppendNumber(static_cast<uint32_t>(type), &value);
  if (type == GgufValueType::kArray) {
    AppendNumber(static_cast<uint32_t>(element), &value);
    AppendNumber(count, &value);
  }
  Append(wire, &value);
  const auto [known, added] = metadata_index_.emplace(key, metadata_.size());
  if (added) {
    metadata_.emplace_back(key, std::move(value));
  } else {
    metadata_[known->second].second = std::move(value);
  }
}

void GgufWriter::SetString(std::string_view key, std::string_view value) {
  std::vector<std::byte> wire;
  AppendString(value, &wire);
  SetWire(key, GgufValueType::kString, GgufValueType::kU8, 1, wire);
}

void GgufWriter::SetStrings(std::string_view key, std::span<const std::string> values) {
  std::vector<std::byte> wire;
  for (const std::string& value : values) AppendString(value, &wire);
  SetWire(key, GgufValueType::kArray, GgufValueType::kString, values.size(), wire);
}

void GgufWriter::SetValue(std::string_view key, const GgufValue& value) {
  if (key == kAlignmentKey) return;
  SetWire(key, value.type(), value.element_type(), value.count(), value.bytes());
}

uint64_t GgufWriter::AddTensor(std::string_view name, std::span<const uint64_t> dims, uint32_t gguf_type) {
  const GgufTypeTraits* type = FindGgufType(gguf_type);
  ES_CHECK(type != nullptr && type->block_elements != 0);
  ES_CHECK(!name.empty() && name.size() <= kMaxGgufTensorNameBytes);
  ES_CHECK(!dims.empty() && dims.size() <= 4 && dims[0] % type->block_elements == 0);
  ES_CHECK(tensor_index_.emplace(name, tensors_.size()).second);
  GgufTensor tensor;
  tensor.name = name;
  tensor.dimensions = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.dims);
  tensor.gguf_type = gguf_type;
  tensor.offset = data_bytes_;
  tensor.bytes = tensor.cols() / type->block_elements * type->block_bytes * tensor.rows();
  ES_CHECK(tensor.bytes != 0);
  data_bytes_ += tensor.bytes + Padding(tensor.bytes);
  tensors_.push_back(std::move(tensor));
  return tensors_.back().offset;
}

std::vector<std::byte> GgufWriter::Header() const {
  std::vector<std::byte> header;
  Append(std::as_bytes(std::span(std::string_view("GGUF"))), &header);
  AppendNumber<uint32_t>(3, &header);
  AppendNumber<uint64_t>(tensors_.size(), &header);
  AppendNumber<uint64_t>(metadata_.size(), &header);
  for (const auto& [key, value] : metadata_) {
    AppendString(key, &header);
    Append(value, &header);
  }
  for (const GgufTensor& tensor : tensors_) {
    AppendString(tensor.name, &header);
    AppendNumber(tensor.dimensions, &header);
    Append(std::as_bytes(std::span(tensor.dims, tensor.dimensions)), &header);
    AppendNumber(tensor.gguf_type, &header);
    AppendNumber(tensor.offset, &header);
  }
  header.resize(header.size() + Padding(header.size()));
  return header;
}

}  // namespace estream
