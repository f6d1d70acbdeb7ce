// SPDX-License-Identifier: Apache-2.0
// Size and modification time catch a replaced file at once; the header's hash catches one of equal size and age.
#include "pack/source_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/macros.h"
#include "format/quote.h"

namespace estream {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

Result<int64_t> ModifiedAt(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return Status::Io(fmt::format("{}: cannot be looked at: {}", ShownPath(path), std::strerror(errno)));
  }
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

uint64_t HeaderBytes(const Gguf& source, uint32_t shard) {
  uint64_t first = source.shard(shard).size();
  for (const GgufTensor& tensor : source.tensors()) {
    if (tensor.shard == shard) first = std::min(first, tensor.offset);
  }
  return first;
}

Result<std::string> HeaderHash(const Gguf& source) {
  HashStream hash;
  std::vector<std::byte> piece;
  for (uint32_t i = 0; i < source.shard_count(); ++i) {
    const uint64_t bytes = HeaderBytes(source, i);
    for (uint64_t at = 0; at < bytes; at += piece.size()) {
      piece.resize(std::min(kPieceBytes, bytes - at));
      ES_RETURN_IF_ERROR(source.shard(i).ReadAt(at, piece));
      hash.Update(piece);
    }
  }
  return HexText(hash.Finish());
}

Result<SourceIdentity> IdentifySource(const Gguf& source) {
  SourceIdentity identity;
  identity.file = BaseName(source.path());
  identity.bytes = source.file_bytes();
  for (uint32_t i = 0; i < source.shard_count(); ++i) {
    ES_ASSIGN_OR_RETURN(const int64_t modified, ModifiedAt(source.shard(i).name()));
    identity.mtime_ns = std::max(identity.mtime_ns, modified);
  }
  ES_ASSIGN_OR_RETURN(identity.header_hash, HeaderHash(source));
  return identity;
}

}  // namespace estream
