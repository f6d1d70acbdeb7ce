// SPDX-License-Identifier: Apache-2.0
// Bytes that say where in a file they belong, and files full of them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/macros.h"

namespace estream::testing {

// Word w of a file is a hash of w, so a byte from any other place is seen. Offsets are multiples of 8.
inline uint64_t PatternWord(uint64_t word) {
  uint64_t x = (word + 1) * 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  return x * 0xBF58476D1CE4E5B9u;
}

inline void FillPattern(std::span<std::byte> out, uint64_t offset) {
  for (size_t i = 0; i < out.size(); i += 8) {
    const uint64_t word = PatternWord((offset + i) / 8);
    std::memcpy(out.data() + i, &word, std::min<size_t>(8, out.size() - i));
  }
}

inline bool HasPattern(std::span<const std::byte> bytes, uint64_t offset) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = PatternWord((offset + i) / 8);
    if (std::memcmp(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i)) != 0) return false;
  }
  return true;
}

inline std::vector<std::byte> PatternBytes(uint64_t bytes) {
  std::vector<std::byte> content(bytes);
  FillPattern(content, 0);
  return content;
}

// A file of the pattern, on disk, gone with this object.
class PatternFile {
 public:
  // In `folder`; of any length.
  PatternFile(const std::string& folder, uint64_t bytes) : path_(folder + "/pattern-XXXXXX") {
    const int fd = mkstemp(path_.data());
    ES_CHECK(fd >= 0);
    const std::vector<std::byte> content = PatternBytes(bytes);
    for (size_t done = 0; done < content.size();) {
      const ssize_t n = write(fd, content.data() + done, content.size() - done);
      ES_CHECK(n > 0);
      done += static_cast<size_t>(n);
    }
    ES_CHECK(fsync(fd) == 0 && close(fd) == 0);
  }
  ~PatternFile() { unlink(path_.c_str()); }
  PatternFile(const PatternFile&) = delete;
  PatternFile& operator=(const PatternFile&) = delete;

  const std::string& path() const { return path_; }
  void Truncate(uint64_t bytes) { ES_CHECK(truncate(path_.c_str(), static_cast<off_t>(bytes)) == 0); }

 private:
  std::string path_;
};

}  // namespace estream::testing
