// SPDX-License-Identifier: Apache-2.0
// The buffer is small, since real headers are a few MiB and large arrays are read once more in one piece anyway.
#include "format/gguf_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "format/quote.h"

namespace estream {
namespace {

constexpr uint64_t kBufferBytes = 64 << 10;

// The header is held in memory. The largest known (260,000 tokens with merges) is below 20 MiB; a file that claims more
// than this is either hostile or something we could not serve in a small budget.
constexpr uint64_t kMaxHeaderBytes = 128 << 20;

}  // namespace

Status GgufCursor::Corrupt(const std::string& problem) const {
  return Status::Corrupt(fmt::format("{}: {} {}", ShownPath(file_.name()), subject_, problem));
}

Status GgufCursor::CheckAvailable(uint64_t bytes) const {
  if (bytes > remaining()) {
    return Corrupt(
        fmt::format("needs {} bytes at offset {}, the file ends at byte {}", bytes, position_, file_.size()));
  }
  if (bytes > kMaxHeaderBytes || position_ > kMaxHeaderBytes - bytes) {
    return Status::Unsupported(
        fmt::format("{}: the header is longer than {} MiB", ShownPath(file_.name()), kMaxHeaderBytes >> 20));
  }
  return Status::Ok();
}

Status GgufCursor::Fill() {
  const uint64_t bytes = std::min(kBufferBytes, remaining());
  buffer_.resize(bytes);
  buffer_start_ = position_;
  Status status = file_.ReadAt(position_, buffer_);
  if (!status.ok()) buffer_.clear();
  return status;
}

Status GgufCursor::Read(std::span<std::byte> out) {
  ES_RETURN_IF_ERROR(CheckAvailable(out.size()));
  while (!out.empty()) {
    const uint64_t end = buffer_start_ + buffer_.size();
    if (position_ < buffer_start_ || position_ >= end) {
      ES_RETURN_IF_ERROR(Fill());
      continue;
    }
    const size_t take = static_cast<size_t>(std::min<uint64_t>(end - position_, out.size()));
    std::memcpy(out.data(), buffer_.data() + (position_ - buffer_start_), take);
    position_ += take;
    out = out.subspan(take);
  }
  return Status::Ok();
}

Status GgufCursor::Skip(uint64_t bytes) {
  ES_RETURN_IF_ERROR(CheckAvailable(bytes));
  position_ += bytes;
  return Status::Ok();
}

Result<std::vector<std::byte>> GgufCursor::BytesSince(uint64_t start) const {
  std::vector<std::byte> bytes(position_ - start);
  ES_RETURN_IF_ERROR(file_.ReadAt(start, bytes));
  return bytes;
}

}  // namespace estream
