// SPDX-License-Identifier: Apache-2.0
// A model file that arrives through a pipe: its header first, then its bytes, once and in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "estream/status.h"
#include "format/gguf.h"
#include "pack/source_identity.h"

namespace estream {

class ForwardSource {
 public:
  // Reads from the descriptor `fd` (not owned) as far as the header goes. `name` stands for it in messages.
  //
  // Errors: as Gguf::Open; Unsupported for one file of a split set; Io.
  // Cost:   holds the header and up to as much behind it.
  static Result<std::unique_ptr<ForwardSource>> Open(int fd, const std::string& name);

  // Metadata and tensor table. Its ReadTensor works only for what has been read ahead.
  const Gguf& gguf() const { return *gguf_; }

  // Where the next byte lies in the file.
  uint64_t position() const { return position_; }

  // Takes the next bytes. Errors: Corrupt when the pipe ends before; Io.
  Status Read(std::span<std::byte> out);
  // Passes over bytes up to `position`. Pre: not behind the current one.
  Status SkipTo(uint64_t position);
  // Reads to the end; returns the size of the file.
  Result<uint64_t> Drain();

  // The identity of the file but for its size, which only its end tells. Errors: Io. Pre: nothing has been taken.
  Result<SourceIdentity> Identify();

 private:
  ForwardSource(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  Status ReadAhead(uint64_t bytes);
  Result<size_t> ReadSome(std::span<std::byte> out);

  const int fd_;
  const std::string name_;
  std::unique_ptr<Gguf> gguf_;
  std::vector<std::byte> ahead_;  // the first bytes of the file, kept until passed
  bool ended_ = false;            // whether the pipe has nothing more
  uint64_t position_ = 0;
};

}  // namespace estream
