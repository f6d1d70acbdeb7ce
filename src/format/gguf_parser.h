// SPDX-License-Identifier: Apache-2.0
// From the bytes of one GGUF file to a checked Gguf; split sets are joined above this.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "estream/status.h"
#include "format/gguf.h"
#include "format/gguf_cursor.h"

namespace estream {

// One parse of one file, front to back. Nothing is allocated from a count or length before it has been compared with
// the bytes left in the file; nothing recurses.
class GgufParser {
 public:
  static Result<Gguf> Parse(std::shared_ptr<const RandomAccessFile> file);

 private:
  explicit GgufParser(const RandomAccessFile& file) : file_(file), cursor_(file) {}

  Status ParsePreamble();  // magic, version, counts
  Status CheckCount(const char* what, uint64_t count, uint64_t min_bytes, uint64_t max) const;
  Status ParseMetadata();
  Result<std::string> ParseKey();
  Status ParseValue(GgufValue* value);
  Status ParseArray(GgufValue* value);
  Status SkipString();
  Status CheckAlignment();

  Status ParseTensorTable();
  Result<std::string> ParseTensorName();
  Status ParseTensor(GgufTensor* tensor);
  Status MeasureTensor(GgufTensor* tensor) const;  // type and dimensions -> bytes
  Status PlaceTensors();                           // offsets in the data section -> offsets in the file
  Status CheckOverlap() const;

  const RandomAccessFile& file_;
  GgufCursor cursor_;
  Gguf gguf_;
  uint64_t tensor_count_ = 0;
  uint64_t pair_count_ = 0;
};

}  // namespace estream
