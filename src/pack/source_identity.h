// SPDX-License-Identifier: Apache-2.0
// What a pack remembers of the model file it was made from, so that it is not used in place of another one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "estream/status.h"
#include "format/gguf.h"
#include "pack/hash128.h"

namespace estream {

inline constexpr std::string_view kPipeName = "-";

struct SourceIdentity {
  std::string file;         // base name (of a split set: of its first file); "-" for a pipe
  uint64_t bytes = 0;       // of all files together
  int64_t mtime_ns = 0;     // the latest of all files; 0 for a pipe
  std::string header_hash;  // see HeaderHash

  bool operator==(const SourceIdentity&) const = default;
};

// Bytes of shard `shard` before its first tensor: all of it when it holds none.
uint64_t HeaderBytes(const Gguf& source, uint32_t shard);

// Hex XXH3-128 of the header bytes of all shards, one after the other. Errors: Io.
Result<std::string> HeaderHash(const Gguf& source);

// Errors: Io.
Result<SourceIdentity> IdentifySource(const Gguf& source);

std::string BaseName(const std::string& path);

}  // namespace estream
