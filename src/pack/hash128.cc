// SPDX-License-Identifier: Apache-2.0
// The one place that knows xxHash.
#include "pack/hash128.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace estream {
namespace {

Hash128 FromXxh(const XXH128_hash_t& hash) { return {hash.low64, hash.high64}; }

}  // namespace

// xxHash wants its state aligned to 64 bytes, which its own allocation gives.
struct HashStream::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

std::string HexText(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

Hash128 HashOf(std::span<const std::byte> bytes) { return FromXxh(XXH3_128bits(bytes.data(), bytes.size())); }

HashStream::HashStream() : state_(std::make_unique<State>()) {}
HashStream::~HashStream() = default;
HashStream::HashStream(HashStream&&) noexcept = default;

void HashStream::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Hash128 HashStream::Finish() {
  const Hash128 hash = FromXxh(XXH3_128bits_digest(state_->xxh));
  XXH3_128bits_reset(state_->xxh);
  return hash;
}

}  // namespace estream
