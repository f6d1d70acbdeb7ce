// SPDX-License-Identifier: Apache-2.0
// The loop of a read, turned inside out.
#include "residency/read_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/aligned_buffer.h"
#include "format/quote.h"

namespace estream {
namespace {

constexpr uint64_t kBufferedChunk = 1 << 20;
// One attempt: below the kernel's limit of 2 GiB, and what io_uring's 32-bit lengths can say.
constexpr uint64_t kDirectChunk = 1 << 30;
// A read that is interrupted this often without one byte is not going anywhere.
constexpr uint32_t kIdleLimit = 1000;

}  // namespace

std::span<std::byte> ReadProgress::next() const {
  const uint64_t chunk = file_->direct() ? kDirectChunk : kBufferedChunk;
  return out_.subspan(done_, std::min<uint64_t>(chunk, out_.size() - done_));
}

ReadProgress::Step ReadProgress::Take(int64_t result) {
  if (result > 0) return Advance(std::min<uint64_t>(static_cast<uint64_t>(result), out_.size() - done_));
  if (result == 0) return FailAtEnd(position());
  const int error = static_cast<int>(-result);
  if (error == EINTR || error == EAGAIN) return Retry(error);
  if (error == EINVAL && file_->direct()) {
    file_->GoBuffered(error);
    return Step::kAgain;
  }
  return Fail(Status::Io(fmt::format("{}: reading {} bytes at offset {}: {}", ShownPath(file_->name()), out_.size(),
                                     offset_, std::strerror(error))));
}

ReadProgress::Step ReadProgress::Advance(uint64_t bytes) {
  const uint64_t end = position() + bytes;
  if (!file_->direct()) {
    file_->DropBehind(position(), bytes);
  } else if (bytes % kPageBytes != 0) {
    // A direct read stops inside a page at the end of the file, or before a bad sector; to go on from there would be
    // unaligned. So read that page again; if it is still short, say which of the two it is.
    bytes -= bytes % kPageBytes;
    if (bytes == 0) return end >= file_->size_now() ? FailAtEnd(end) : Retry(EIO);
  }
  done_ += bytes;
  idle_ = 0;
  return done_ == out_.size() ? Step::kDone : Step::kAgain;
}

ReadProgress::Step ReadProgress::Retry(int error) {
  if (++idle_ <= kIdleLimit) return Step::kAgain;
  return Fail(Status::Io(fmt::format("{}: reading {} bytes at offset {}: gave up after {} attempts: {}",
                                     ShownPath(file_->name()), out_.size(), offset_, idle_, std::strerror(error))));
}

ReadProgress::Step ReadProgress::FailAtEnd(uint64_t end) {
  return Fail(
      Status::Corrupt(fmt::format("{}: ends at byte {}, {} bytes were expected at offset {}", ShownPath(file_->name()),
                                  std::min(end, file_->size_now()), out_.size(), offset_)));
}

ReadProgress::Step ReadProgress::Fail(Status status) {
  status_ = std::move(status);
  return Step::kFailed;
}

}  // namespace estream
