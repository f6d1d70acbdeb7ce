// SPDX-License-Identifier: Apache-2.0
// Layout: "\x93NUMPY", version 1.0, u16 length, a Python dictionary padded with blanks so that the data begins at a
// multiple of 64, then the rows.
#include "format/npy.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "base/checked_math.h"
#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr size_t kDataAlignment = 64;

std::string Header(uint64_t rows, uint64_t cols) {
  std::string dictionary = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  std::string header("\x93NUMPY\x01\x00", 8);
  const size_t unpadded = header.size() + 2 + dictionary.size() + 1;
  dictionary.append(AlignUp(unpadded, kDataAlignment) - unpadded, ' ');
  dictionary += '\n';
  header += static_cast<char>(dictionary.size() & 0xFF);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

}  // namespace

Result<std::unique_ptr<NpyWriter>> NpyWriter::Create(const std::string& path, uint64_t rows, uint64_t cols) {
  const auto values = CheckedMul(rows, cols);
  constexpr uint64_t kMaxValues = std::numeric_limits<int64_t>::max() / sizeof(float) - kDataAlignment;
  if (!values || *values > kMaxValues) {
    return Status::InvalidArgument(
        fmt::format("{}: an array of {} x {} floats is too large for a file", ShownPath(path), rows, cols));
  }
  ES_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  std::unique_ptr<NpyWriter> writer(new NpyWriter(std::move(file), rows, cols));
  const std::string header = Header(rows, cols);
  ES_RETURN_IF_ERROR(writer->Put(std::as_bytes(std::span(header))));
  return writer;
}

Status NpyWriter::Append(std::span<const float> row) {
  ES_RETURN_IF_ERROR(error_);
  if (row.size() != cols_) {
    return Status::InvalidArgument(
        fmt::format("{}: row {} has {} values, expected {}", ShownPath(file_->name()), written_, row.size(), cols_));
  }
  if (written_ == rows_) {
    return Status::InvalidArgument(fmt::format("{}: has all its {} rows already", ShownPath(file_->name()), rows_));
  }
  ES_RETURN_IF_ERROR(Put(std::as_bytes(row)));
  ++written_;
  return Status::Ok();
}

Status NpyWriter::Finish() {
  ES_RETURN_IF_ERROR(error_);
  if (finished_) return Status::InvalidArgument(fmt::format("{}: is already finished", ShownPath(file_->name())));
  if (written_ != rows_) {
    return Status::InvalidArgument(
        fmt::format("{}: has {} rows, expected {}", ShownPath(file_->name()), written_, rows_));
  }
  ES_RETURN_IF_ERROR(Flush());
  error_ = file_->Commit();
  finished_ = error_.ok();
  return error_;
}

Status NpyWriter::Put(std::span<const std::byte> bytes) {
  if (bytes.size() > kBufferBytes - buffer_.size()) ES_RETURN_IF_ERROR(Flush());
  if (bytes.size() >= kBufferBytes) {
    error_ = file_->Write(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  return error_;
}

Status NpyWriter::Flush() {
  error_ = file_->Write(buffer_);
  buffer_.clear();
  return error_;
}

}  // namespace estream
