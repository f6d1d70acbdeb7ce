// SPDX-License-Identifier: Apache-2.0
// The header is parsed by the one parser there is, over what has been read so far; when that is not enough, more is
// read and the parse begins anew. Twice as much each time, so that all tries together cost about two.
#include "pack/forward_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/macros.h"
#include "format/quote.h"
#include "pack/hash128.h"

namespace estream {
namespace {

constexpr uint64_t kFirstBytes = 256 << 10;
constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint64_t kUnknownSize = uint64_t{1} << 62;  // of a pipe: nothing a header claims is beyond it

// The first bytes of a file that may go on. Remembers up to where a read has asked in vain.
class Prefix final : public RandomAccessFile {
 public:
  Prefix(std::vector<std::byte> bytes, bool whole, std::string name)
      : bytes_(std::move(bytes)), whole_(whole), name_(std::move(name)) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (out.size() > bytes_.size() || offset > bytes_.size() - out.size()) {
      wanted_ = std::max<uint64_t>(wanted_, offset + out.size());
      return Status::Corrupt(fmt::format("{}: ends at byte {}, {} bytes were expected at offset {}", name_,
                                         bytes_.size(), out.size(), offset));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return Status::Ok();
  }
  uint64_t size() const override { return whole_ ? bytes_.size() : kUnknownSize; }
  const std::string& name() const override { return name_; }
  uint64_t wanted() const { return wanted_; }

 private:
  const std::vector<std::byte> bytes_;
  const bool whole_;
  const std::string name_;
  mutable uint64_t wanted_ = 0;
};

}  // namespace

Result<std::unique_ptr<ForwardSource>> ForwardSource::Open(int fd, const std::string& name) {
  std::unique_ptr<ForwardSource> source(new ForwardSource(fd, name));
  (void)fcntl(fd, F_SETPIPE_SZ, static_cast<int>(kPieceBytes));  // fewer turns between writer and reader
  for (uint64_t bytes = kFirstBytes;; bytes *= 2) {
    ES_RETURN_IF_ERROR(source->ReadAhead(bytes));
    auto prefix = std::make_shared<Prefix>(source->ahead_, source->ended_, name);
    Result<Gguf> gguf = Gguf::Open(prefix);
    if (gguf.ok()) {
      source->gguf_ = std::make_unique<Gguf>(std::move(*gguf));
      return source;
    }
    if (source->ended_ || prefix->wanted() == 0) return gguf.status();
    bytes = std::max(bytes, prefix->wanted() / 2);
  }
}

// Makes ahead_ at least `bytes` long, or all of the file.
Status ForwardSource::ReadAhead(uint64_t bytes) {
  while (!ended_ && ahead_.size() < bytes) {
    const size_t old = ahead_.size();
    ahead_.resize(old + static_cast<size_t>(std::min(kPieceBytes, bytes - old)));
    const Result<size_t> got = ReadSome(std::span(ahead_).subspan(old));
    ahead_.resize(old + (got.ok() ? *got : 0));
    ES_RETURN_IF_ERROR(got.status());
  }
  return Status::Ok();
}

// 0 bytes mean the end.
Result<size_t> ForwardSource::ReadSome(std::span<std::byte> out) {
  for (;;) {
    const ssize_t n = read(fd_, out.data(), out.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::Io(fmt::format("{}: cannot be read: {}", ShownPath(name_), std::strerror(errno)));
    ended_ = ended_ || n == 0;
    return static_cast<size_t>(n);
  }
}

Status ForwardSource::Read(std::span<std::byte> out) {
  if (position_ < ahead_.size()) {
    const size_t take = std::min<size_t>(out.size(), ahead_.size() - position_);
    std::memcpy(out.data(), ahead_.data() + position_, take);
    position_ += take;
    out = out.subspan(take);
    if (position_ == ahead_.size()) std::vector<std::byte>().swap(ahead_);
  }
  while (!out.empty()) {
    ES_ASSIGN_OR_RETURN(const size_t n, ended_ ? Result<size_t>(0) : ReadSome(out));
    if (n == 0) {
      return Status::Corrupt(
          fmt::format("{}: ends at byte {}, more of the tensors was expected", ShownPath(name_), position_));
    }
    position_ += n;
    out = out.subspan(n);
  }
  return Status::Ok();
}

Status ForwardSource::SkipTo(uint64_t position) {
  ES_CHECK(position >= position_);
  std::vector<std::byte> piece;
  while (position_ < position) {
    piece.resize(static_cast<size_t>(std::min(kPieceBytes, position - position_)));
    ES_RETURN_IF_ERROR(Read(piece));
  }
  return Status::Ok();
}

Result<uint64_t> ForwardSource::Drain() {
  position_ = std::max<uint64_t>(position_, ahead_.size());
  std::vector<std::byte> piece(kPieceBytes);
  while (!ended_) {
    ES_ASSIGN_OR_RETURN(const size_t n, ReadSome(piece));
    position_ += n;
  }
  return position_;
}

Result<SourceIdentity> ForwardSource::Identify() {
  ES_CHECK(position_ == 0);
  uint64_t bytes = kUnknownSize;
  for (const GgufTensor& tensor : gguf_->tensors()) bytes = std::min(bytes, tensor.offset);
  ES_RETURN_IF_ERROR(ReadAhead(bytes));
  const std::span<const std::byte> header = std::span(ahead_).first(std::min<uint64_t>(bytes, ahead_.size()));
  return SourceIdentity{.file = std::string(kPipeName), .header_hash = HexText(HashOf(header))};
}

}  // namespace estream
