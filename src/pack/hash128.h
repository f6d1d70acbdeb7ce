// SPDX-License-Identifier: Apache-2.0
// XXH3-128 as a value and as a stream: what stands for a region's bytes in a pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace estream {

// The two halves of XXH3_128bits with seed 0. All zero means "not known".
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;

  bool known() const { return low != 0 || high != 0; }
  bool operator==(const Hash128&) const = default;
};
static_assert(sizeof(Hash128) == 16);  // as stored in a pack: low, then high

// 32 hexadecimal digits, high half first.
std::string HexText(const Hash128& hash);

Hash128 HashOf(std::span<const std::byte> bytes);

// The hash of bytes that arrive in pieces.
class HashStream {
 public:
  HashStream();
  ~HashStream();
  HashStream(HashStream&&) noexcept;
  HashStream& operator=(HashStream&&) = delete;

  void Update(std::span<const std::byte> bytes);
  // The hash of everything since construction or the last Finish; the next Update begins anew.
  Hash128 Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace estream
