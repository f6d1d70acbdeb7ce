// SPDX-License-Identifier: Apache-2.0
// The order of this file is the order of a GGUF file: preamble, metadata, tensor table, data.
#include "format/gguf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "base/macros.h"
#include "format/gguf_types.h"
#include "format/gguf_value_types.h"
#include "format/quote.h"

namespace estream {
namespace {

// The shortest possible entries: length, one byte of key, type, one byte of value; length, one byte of name, dimension
// count, one dimension, type, offset.
constexpr uint64_t kMinPairBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// Far above any real file; entries cost several times their wire bytes in memory.
constexpr uint64_t kMaxPairs = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 20;

constexpr uint64_t kMinAlignment = 8;  // GGUF specification: a multiple of 8
constexpr uint64_t kMaxAlignment = 1 << 20;

}  // namespace

Result<Gguf> GgufParser::Parse(std::shared_ptr<const RandomAccessFile> file) {
  GgufParser parser(*file);
  ES_RETURN_IF_ERROR(parser.ParsePreamble());
  ES_RETURN_IF_ERROR(parser.ParseMetadata());
  ES_RETURN_IF_ERROR(parser.CheckAlignment());
  ES_RETURN_IF_ERROR(parser.ParseTensorTable());
  ES_RETURN_IF_ERROR(parser.PlaceTensors());
  ES_RETURN_IF_ERROR(parser.CheckOverlap());
  Gguf gguf = std::move(parser.gguf_);
  gguf.path_ = file->name();
  gguf.shards_.push_back(std::move(file));
  return gguf;
}

Status GgufParser::ParsePreamble() {
  char magic[4];
  ES_RETURN_IF_ERROR(cursor_.Read(std::as_writable_bytes(std::span(magic))));
  if (std::string_view(magic, 4) != "GGUF") {
    return Status::Corrupt(fmt::format("{}: is not a GGUF file, it begins with {}", ShownPath(file_.name()),
                                       Quoted(std::string_view(magic, 4))));
  }
  ES_ASSIGN_OR_RETURN(gguf_.version_, cursor_.Scalar<uint32_t>());
  if (gguf_.version_ != 2 && gguf_.version_ != 3) {
    const bool swapped = (gguf_.version_ & 0xFFFF) == 0 && gguf_.version_ != 0;
    return Status::Unsupported(fmt::format(
        "{}: {}, expected GGUF version 2 or 3", ShownPath(file_.name()),
        swapped ? std::string("is a big-endian GGUF file") : fmt::format("has GGUF version {}", gguf_.version_)));
  }
  ES_ASSIGN_OR_RETURN(tensor_count_, cursor_.Scalar<uint64_t>());
  ES_ASSIGN_OR_RETURN(pair_count_, cursor_.Scalar<uint64_t>());
  ES_RETURN_IF_ERROR(CheckCount("tensors", tensor_count_, kMinTensorBytes, kMaxTensors));
  return CheckCount("metadata keys", pair_count_, kMinPairBytes, kMaxPairs);
}

Status GgufParser::CheckCount(const char* what, uint64_t count, uint64_t min_bytes, uint64_t max) const {
  if (count > cursor_.remaining() / min_bytes) {
    return cursor_.Corrupt(fmt::format("claims {} {}, the file has only {} bytes", count, what, file_.size()));
  }
  if (count > max) return cursor_.Corrupt(fmt::format("claims {} {}, at most {} are expected", count, what, max));
  return Status::Ok();
}

Status GgufParser::ParseMetadata() {
  for (uint64_t i = 0; i < pair_count_; ++i) {
    cursor_.set_subject(fmt::format("metadata key {} of {}", i + 1, pair_count_));
    ES_ASSIGN_OR_RETURN(std::string key, ParseKey());
    cursor_.set_subject(fmt::format("key {}", Quoted(key)));
    if (!gguf_.metadata_index_.emplace(key, i).second) return cursor_.Corrupt("occurs twice");
    GgufValue value;
    ES_RETURN_IF_ERROR(ParseValue(&value));
    gguf_.metadata_.emplace_back(std::move(key), std::move(value));
  }
  return Status::Ok();
}

Result<std::string> GgufParser::ParseKey() {
  ES_ASSIGN_OR_RETURN(const uint64_t length, cursor_.Scalar<uint64_t>());
  if (length == 0 || length > kMaxGgufKeyBytes) {
    return cursor_.Corrupt(fmt::format("is {} bytes long, expected 1 to {}", length, kMaxGgufKeyBytes));
  }
  if (length > cursor_.remaining()) return cursor_.Skip(length);  // the error that says so
  std::string key(length, '\0');
  ES_RETURN_IF_ERROR(cursor_.Read(std::as_writable_bytes(std::span(key))));
  return key;
}

Status GgufParser::ParseValue(GgufValue* value) {
  ES_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Scalar<uint32_t>());
  if (!IsGgufValueType(type)) return cursor_.Corrupt(fmt::format("has unknown value type {}", type));
  value->type_ = static_cast<GgufValueType>(type);
  if (value->type_ == GgufValueType::kArray) return ParseArray(value);
  const uint64_t start = cursor_.position();
  if (value->type_ == GgufValueType::kString) {
    ES_RETURN_IF_ERROR(SkipString());
  } else {
    ES_RETURN_IF_ERROR(cursor_.Skip(ScalarBytes(value->type_)));
  }
  ES_ASSIGN_OR_RETURN(value->bytes_, cursor_.BytesSince(start));
  if (value->type_ == GgufValueType::kBool && !value->AsBool()) {
    return cursor_.Corrupt(fmt::format("is a bool of value {}, expected 0 or 1", static_cast<int>(value->bytes_[0])));
  }
  return Status::Ok();
}

// Walks an array to learn where it ends, then takes its bytes in one piece.
Status GgufParser::ParseArray(GgufValue* value) {
  ES_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Scalar<uint32_t>());
  if (!IsGgufValueType(type)) return cursor_.Corrupt(fmt::format("is an array of unknown value type {}", type));
  value->element_type_ = static_cast<GgufValueType>(type);
  if (value->element_type_ == GgufValueType::kArray) {
    return cursor_.Corrupt("is an array of arrays, which no model key is");
  }
  ES_ASSIGN_OR_RETURN(value->count_, cursor_.Scalar<uint64_t>());
  const uint64_t element_bytes = ScalarBytes(value->element_type_);  // of a string: its length field
  const auto bytes = CheckedMul(value->count_, element_bytes);
  if (!bytes || *bytes > cursor_.remaining()) {
    return cursor_.Corrupt(fmt::format("claims {} array elements, only {} bytes are left in the file", value->count_,
                                       cursor_.remaining()));
  }
  const uint64_t start = cursor_.position();
  if (value->element_type_ == GgufValueType::kString) {
    for (uint64_t i = 0; i < value->count_; ++i) ES_RETURN_IF_ERROR(SkipString());
  } else {
    ES_RETURN_IF_ERROR(cursor_.Skip(*bytes));
  }
  ES_ASSIGN_OR_RETURN(value->bytes_, cursor_.BytesSince(start));
  return Status::Ok();
}

Status GgufParser::SkipString() {
  ES_ASSIGN_OR_RETURN(const uint64_t length, cursor_.Scalar<uint64_t>());
  return cursor_.Skip(length);
}

Status GgufParser::CheckAlignment() {
  const GgufValue* value = gguf_.Find("general.alignment");
  if (value == nullptr) return Status::Ok();
  cursor_.set_subject("key \"general.alignment\"");
  if (value->type() != GgufValueType::kU32) {
    return cursor_.Corrupt(fmt::format("has type {}, expected u32", GgufValueTypeName(value->type())));
  }
  const uint64_t alignment = *value->AsUint();
  const bool power_of_two = (alignment & (alignment - 1)) == 0;
  if (alignment < kMinAlignment || alignment > kMaxAlignment || !power_of_two) {
    return cursor_.Corrupt(
        fmt::format("is {}, expected a power of two in {}..{}", alignment, kMinAlignment, kMaxAlignment));
  }
  gguf_.alignment_ = alignment;
  return Status::Ok();
}

Status GgufParser::ParseTensorTable() {
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    cursor_.set_subject(fmt::format("tensor {} of {}", i + 1, tensor_count_));
    GgufTensor tensor;
    ES_ASSIGN_OR_RETURN(tensor.name, ParseTensorName());
    cursor_.set_subject(fmt::format("tensor {}", Quoted(tensor.name)));
    if (!gguf_.tensor_index_.emplace(tensor.name, i).second) return cursor_.Corrupt("occurs twice");
    ES_RETURN_IF_ERROR(ParseTensor(&tensor));
    gguf_.tensors_.push_back(std::move(tensor));
  }
  return Status::Ok();
}

Result<std::string> GgufParser::ParseTensorName() {
  ES_ASSIGN_OR_RETURN(const uint64_t length, cursor_.Scalar<uint64_t>());
  if (length == 0 || length > kMaxGgufTensorNameBytes) {
    return cursor_.Corrupt(fmt::format("has a name of {} bytes, expected 1 to {}", length, kMaxGgufTensorNameBytes));
  }
  std::string name(length, '\0');
  ES_RETURN_IF_ERROR(cursor_.Read(std::as_writable_bytes(std::span(name))));
  return name;
}

Status GgufParser::ParseTensor(GgufTensor* tensor) {
  ES_ASSIGN_OR_RETURN(tensor->dimensions, cursor_.Scalar<uint32_t>());
  if (tensor->dimensions < 1 || tensor->dimensions > 4) {
    return cursor_.Corrupt(fmt::format("has {} dimensions, expected 1 to 4", tensor->dimensions));
  }
  for (uint32_t d = 0; d < tensor->dimensions; ++d) {
    ES_ASSIGN_OR_RETURN(tensor->dims[d], cursor_.Scalar<uint64_t>());
    if (tensor->dims[d] == 0) return cursor_.Corrupt(fmt::format("has dimension {} of size 0", d));
  }
  ES_ASSIGN_OR_RETURN(tensor->gguf_type, cursor_.Scalar<uint32_t>());
  ES_ASSIGN_OR_RETURN(tensor->offset, cursor_.Scalar<uint64_t>());
  return MeasureTensor(tensor);
}

Status GgufParser::MeasureTensor(GgufTensor* tensor) const {
  const GgufTypeTraits* type = FindGgufType(tensor->gguf_type);
  if (type == nullptr) return cursor_.Corrupt(fmt::format("has unknown type {}", tensor->gguf_type));
  if (type->block_elements == 0) {
    return cursor_.Corrupt(fmt::format("has type {} ({}), which GGUF has removed", type->name, tensor->gguf_type));
  }
  if (tensor->cols() % type->block_elements != 0) {
    return cursor_.Corrupt(fmt::format("has rows of {} values, {} needs a multiple of {}", tensor->cols(), type->name,
                                       type->block_elements));
  }
  std::optional<uint64_t> values = 1;
  auto bytes = CheckedMul(tensor->cols() / type->block_elements, type->block_bytes);
  for (int d = 0; d < 4 && values; ++d) values = CheckedMul(*values, tensor->dims[d]);
  for (int d = 1; d < 4 && bytes; ++d) bytes = CheckedMul(*bytes, tensor->dims[d]);
  if (!values || !bytes) return cursor_.Corrupt("has dimensions whose product does not fit 64 bits");
  tensor->bytes = *bytes;
  return Status::Ok();
}

Status GgufParser::PlaceTensors() {
  const uint64_t data_start = AlignUp(cursor_.position(), gguf_.alignment_);
  for (GgufTensor& tensor : gguf_.tensors_) {
    cursor_.set_subject(fmt::format("tensor {}", Quoted(tensor.name)));
    if (tensor.offset % gguf_.alignment_ != 0) {
      return cursor_.Corrupt(fmt::format("has offset {}, expected a multiple of {}", tensor.offset, gguf_.alignment_));
    }
    const auto start = CheckedAdd(data_start, tensor.offset);
    const auto end = start ? CheckedAdd(*start, tensor.bytes) : std::nullopt;
    if (!end || *end > file_.size()) {
      return cursor_.Corrupt(fmt::format("has {} bytes at data offset {}, the file ends at byte {}", tensor.bytes,
                                         tensor.offset, file_.size()));
    }
    tensor.offset = *start;
  }
  return Status::Ok();
}

Status GgufParser::CheckOverlap() const {
  std::vector<const GgufTensor*> order;
  order.reserve(gguf_.tensors_.size());
  for (const GgufTensor& tensor : gguf_.tensors_) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = *order[i - 1];
    if (before.offset + before.bytes <= order[i]->offset) continue;
    return Status::Corrupt(fmt::format("{}: tensors {} and {} overlap at byte {}", ShownPath(file_.name()),
                                       Quoted(before.name), Quoted(order[i]->name), order[i]->offset));
  }
  return Status::Ok();
}

}  // namespace estream
