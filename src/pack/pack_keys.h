// SPDX-License-Identifier: Apache-2.0
// The keys that make a GGUF file a pack, and reading them, fully checked.
#pragma once

#include <string>
#include <vector>

#include "estream/status.h"
#include "family/model_plan.h"
#include "format/gguf.h"
#include "pack/hash128.h"
#include "pack/source_identity.h"

namespace estream {

namespace pack_keys {
inline constexpr const char* kPrefix = "estream.";
inline constexpr const char* kVersion = "estream.version";
inline constexpr const char* kArchitecture = "estream.source.architecture";
inline constexpr const char* kFile = "estream.source.file";
inline constexpr const char* kBytes = "estream.source.bytes";
inline constexpr const char* kMtime = "estream.source.mtime_ns";
inline constexpr const char* kHeaderHash = "estream.source.header_hash";
inline constexpr const char* kTensorNames = "estream.source.tensors.names";
inline constexpr const char* kTensorTypes = "estream.source.tensors.types";
inline constexpr const char* kTensorDims = "estream.source.tensors.dims";
inline constexpr const char* kOrder = "estream.order";
inline constexpr const char* kUnitHashes = "estream.hash.units";
inline constexpr const char* kPackHeaderHash = "estream.hash.header";
}  // namespace pack_keys

// What the keys of a pack say.
struct PackKeys {
  std::string architecture;  // the source's
  SourceIdentity source;
  std::vector<GgufTensor> tensors;  // the source's table: names, types, shapes, sizes; no places
};

// Errors: InvalidArgument when the file is no pack; Unsupported for another version; Corrupt, naming the key, for
// anything else that is not as it must be.
Result<PackKeys> ReadPackKeys(const Gguf& pack);

// Sets the plan's expert orders from estream.order, if there is one. Errors: Corrupt unless each is a permutation.
Status ReadExpertOrder(const Gguf& pack, ModelPlan* plan);

// The stored hash of every unit, and of the header.
struct PackHashes {
  std::vector<Hash128> units;
  Hash128 header;
  uint64_t header_offset = 0;  // of the header's hash, in the file
};

// Errors: Corrupt when there are not exactly `units`.
Result<PackHashes> ReadPackHashes(const Gguf& pack, uint64_t units);

// Whether `order` holds every index below its size once; else what is wrong: "holds 7 twice".
Status CheckPermutation(const std::vector<uint32_t>& order);

}  // namespace estream
