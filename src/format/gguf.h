// SPDX-License-Identifier: Apache-2.0
// Reading GGUF v2 and v3: metadata and the tensor table of one file or of a split set, fully checked at open.
//
// Layout (GGUF specification): magic "GGUF", u32 version, u64 tensor count, u64 metadata count; metadata pairs (string
// key, u32 value type, value); tensor infos (name, u32 dimensions, u64 each, fastest first, u32 type, u64 offset);
// padding to general.alignment (default 32); tensor data. Strings are u64 length and bytes. Everything is
// little-endian.
//
// Invariants after Open: no key and no tensor name occurs twice; every tensor's bytes lie inside its file, aligned, and
// overlap no other tensor; dimensions are 1..4, none zero, no product wraps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "format/file.h"

namespace estream {

enum class GgufValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
const char* GgufValueTypeName(GgufValueType type);

// One metadata value. Scalars and strings are held as their wire bytes; an array as its element type, count and wire
// bytes, so that a vocabulary of 150,000 strings is one allocation.
class GgufValue {
 public:
  GgufValueType type() const { return type_; }
  GgufValueType element_type() const { return element_type_; }  // arrays only
  uint64_t count() const { return count_; }                     // array elements; 1 for scalars

  // Scalar conversions; nothing when the type does not fit. AsUint takes every unsigned type and non-negative signed
  // ones.
  std::optional<uint64_t> AsUint() const;
  std::optional<int64_t> AsInt() const;
  std::optional<double> AsFloat() const;  // f32 and f64 only
  std::optional<bool> AsBool() const;
  std::optional<std::string_view> AsString() const;

  // Element i of an array of scalars, converted as above. Pre: i < count().
  std::optional<int64_t> IntAt(uint64_t i) const;
  std::optional<double> FloatAt(uint64_t i) const;

  // All strings of an array of strings, as views into this value; nothing when it is not one. O(count).
  std::optional<std::vector<std::string_view>> Strings() const;

  // Wire bytes (of a string: with its length; of an array: of its elements, without element type and count).
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  friend class GgufParser;
  GgufValueType type_ = GgufValueType::kU8;
  GgufValueType element_type_ = GgufValueType::kU8;
  uint64_t count_ = 1;
  std::vector<std::byte> bytes_;
};

struct GgufTensor {
  std::string name;
  uint32_t dimensions = 0;
  uint64_t dims[4] = {1, 1, 1, 1};  // fastest first; unused ones are 1
  uint32_t gguf_type = 0;           // see GgufTypeName
  uint32_t shard = 0;               // index of the file that holds it
  uint64_t offset = 0;              // of its first byte in that file
  uint64_t bytes = 0;

  uint64_t cols() const { return dims[0]; }                      // elements a row
  uint64_t rows() const { return dims[1] * dims[2] * dims[3]; }  // all rows, slowest dimensions flattened
};

// The name of a GGUF tensor type ("Q4_0", "IQ2_XS", "I8"), or nothing for an id that no version of GGUF defines.
std::optional<std::string_view> GgufTypeName(uint32_t gguf_type);

class Gguf {
 public:
  // Opens `path`; when it is one of a split set (name-00001-of-0000N.gguf, whichever N is given), opens all of it and
  // joins metadata (of the first) and tensors (of all).
  //
  // Errors: one sentence with file, field, expectation and finding: NotFound, Io, Corrupt, Unsupported (version).
  // Cost:   reads headers only; no work per element of large arrays beyond walking string lengths; no allocation larger
  //         than what the file itself holds.
  static Result<Gguf> Open(const std::string& path);

  // The same for one file already open (tests, fuzzing); a split set is refused.
  static Result<Gguf> Open(std::shared_ptr<const RandomAccessFile> file);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t file_bytes() const;  // of all shards

  // Metadata in file order, and by key.
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  const GgufValue* Find(std::string_view key) const;

  // Typed look-ups. Errors name path, key, expected and found type or range: "missing" is Corrupt, so is a wrong type.
  Result<uint64_t> Uint(std::string_view key, uint64_t min, uint64_t max) const;
  Result<uint64_t> UintOr(std::string_view key, uint64_t absent, uint64_t min, uint64_t max) const;
  Result<double> Float(std::string_view key) const;  // finite, f32 or f64
  Result<double> FloatOr(std::string_view key, double absent) const;
  Result<bool> BoolOr(std::string_view key, bool absent) const;
  Result<std::string_view> String(std::string_view key) const;

  // Tensors in file order, and by name.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;

  // Reads `out.size()` bytes of `tensor` from `offset` inside it. Pre: inside the tensor.
  Status ReadTensor(const GgufTensor& tensor, uint64_t offset, std::span<std::byte> out) const;

  // The file that holds shard `i` (for direct reads, identity checks).
  const RandomAccessFile& shard(uint32_t i) const { return *shards_[i]; }
  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }

 private:
  friend class GgufParser;
  // Opens all `count` files of the set that `given` is one of.
  static Result<Gguf> OpenSplitSet(const Gguf& given, uint32_t count);
  // Adds the tensors of the next shard.
  Status Join(Gguf shard);

  std::string path_;  // of a split set: its first file's
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::map<std::string, size_t, std::less<>> metadata_index_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
  std::vector<std::shared_ptr<const RandomAccessFile>> shards_;
};

}  // namespace estream
