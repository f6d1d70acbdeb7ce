// SPDX-License-Identifier: Apache-2.0
// Vocabularies for tests: those stored in tests/data/tokenizer, and small ones made up on the spot.
#pragma once

#include <gtest/gtest.h>
#if __has_include(<zlib.h>)
#include <zlib.h>
#endif

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "format/file.h"
#include "format/gguf.h"
#include "tests/test_files.h"
#include "text/byte_alphabet.h"
#include "text/vocabulary_spec.h"

namespace estream {

// A file that is a string.
class StringFile : public RandomAccessFile {
 public:
  StringFile(std::string name, std::string bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return Status::Corrupt(name_ + ": ends early");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return Status::Ok();
  }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& name() const override { return name_; }

 private:
  std::string name_, bytes_;
};

#if __has_include(<zlib.h>)
inline constexpr bool kCanGunzip = true;

inline std::string Gunzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  std::string bytes, chunk(1 << 16, '\0');
  for (int n = 1; file != nullptr && n > 0;) {
    n = gzread(file, chunk.data(), static_cast<unsigned>(chunk.size()));
    EXPECT_GE(n, 0) << path;
    if (n > 0) bytes.append(chunk, 0, static_cast<size_t>(n));
  }
  if (file != nullptr) gzclose(file);
  return bytes;
}
#else
inline constexpr bool kCanGunzip = false;
inline std::string Gunzip(const std::string&) { return {}; }
#endif

// Opens vocab/`name`.gguf, or vocab/`name`.gguf.gz when `compressed`.
inline Result<Gguf> OpenVocabulary(const std::string& name, bool compressed) {
  const std::string path = TestData("tokenizer/vocab/" + name + ".gguf");
  return Gguf::Open(std::make_shared<StringFile>(name, compressed ? Gunzip(path + ".gz") : ReadBinary(path)));
}

// A spec that owns what its views show. Not movable: views would dangle.
class SpecMaker {
 public:
  explicit SpecMaker(VocabularyModel model) {
    spec_.origin = "made-up";
    spec_.model = model;
  }
  SpecMaker(const SpecMaker&) = delete;
  SpecMaker& operator=(const SpecMaker&) = delete;

  VocabularySpec& spec() { return spec_; }

  int32_t Add(std::string_view text, TokenType type = TokenType::kNormal, float score = 0) {
    spec_.tokens.push_back(Keep(text));
    spec_.types.push_back(type);
    spec_.scores.push_back(score);
    return static_cast<int32_t>(spec_.tokens.size()) - 1;
  }

  // The 256 letters of the byte alphabet; token i is byte i when called first.
  void AddBytes() {
    for (int byte = 0; byte < 256; ++byte) {
      const char as_char = static_cast<char>(byte);
      std::string letter;
      AppendAsLetters({&as_char, 1}, &letter);
      Add(letter);
    }
  }

  // A merge, and the token it makes when there is none yet.
  void AddMerge(std::string_view left, std::string_view right) {
    const std::string joined = std::string(left) + std::string(right);
    if (std::find(spec_.tokens.begin(), spec_.tokens.end(), joined) == spec_.tokens.end()) Add(joined);
    spec_.merges.push_back(Keep(std::string(left) + " " + std::string(right)));
  }

  // Gives `text` a place to stay.
  std::string_view Keep(std::string_view text) { return kept_.emplace_back(text); }

 private:
  std::deque<std::string> kept_;
  VocabularySpec spec_;
};

}  // namespace estream
