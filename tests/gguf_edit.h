// SPDX-License-Identifier: Apache-2.0
// Changing single things in the bytes of a sound GGUF file, for tests of what a loader says about them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace estream {

class GgufEdit {
 public:
  explicit GgufEdit(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& bytes() const { return bytes_; }

  // Sets a number of 32 bits, which is added when the file has no such key.
  void SetU32(std::string_view key, uint32_t value) {
    if (const size_t at = After(key); at != std::string::npos) {
      ASSERT_EQ(Read<uint32_t>(at), 4u) << key << " is no u32";
      Write(at + 4, value);
      return;
    }
    std::string pairs = Text(key) + Plain<uint32_t>(4) + Plain(value);
    // A second key fills up to the alignment of 32, so that the data stay where they are relative to it.
    const std::string_view filler = "test.filler";
    const size_t without = pairs.size() + Text(filler).size() + 4 + 8;
    pairs += Text(filler) + Plain<uint32_t>(8) + Text(std::string((32 - without % 32) % 32, 'x'));
    bytes_.insert(24, pairs);  // behind magic, version and counts
    Write(16, Read<uint64_t>(16) + 2);
  }

  // Gives a tensor a name that nothing looks for.
  void HideTensor(std::string_view name) {
    const size_t at = After(name);
    ASSERT_NE(at, std::string::npos) << name;
    bytes_[at - 1] = '?';
  }

  // Swaps the two dimensions of a matrix, or of a stack of matrices.
  void TransposeTensor(std::string_view name) {
    const size_t at = After(name);
    ASSERT_NE(at, std::string::npos) << name;
    ASSERT_GE(Read<uint32_t>(at), 2u) << name;
    const auto columns = Read<uint64_t>(at + 4), rows = Read<uint64_t>(at + 12);
    Write(at + 4, rows);
    Write(at + 12, columns);
  }

  // Overwrites bytes of the file.
  template <class T>
  void Write(size_t at, T value) {
    bytes_.replace(at, sizeof(T), Plain(value));
  }

 private:
  template <class T>
  static std::string Plain(T value) {
    std::string text(sizeof(T), '\0');
    std::memcpy(text.data(), &value, sizeof(T));
    return text;
  }

  static std::string Text(std::string_view text) { return Plain<uint64_t>(text.size()) + std::string(text); }

  template <class T>
  T Read(size_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }

  // Where what follows a key or a tensor's name begins.
  size_t After(std::string_view name) const {
    const size_t at = bytes_.find(Text(name));
    return at == std::string::npos ? at : at + 8 + name.size();
  }

  std::string bytes_;
};

}  // namespace estream
