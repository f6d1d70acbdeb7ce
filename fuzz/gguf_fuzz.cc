// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: refused in one short sentence, or open with everything in it readable.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/macros.h"
#include "format/gguf.h"
#include "format/weight_format.h"
#include "tests/gguf_walk.h"
#include "tests/memory_file.h"

namespace estream {
namespace {

// The first blocks of a tensor through the decoder of its format.
void DecodeStart(const Gguf& gguf, const GgufTensor& tensor) {
  const auto format = WeightFormatFromGgufType(tensor.gguf_type);
  if (!format.ok()) return;
  const uint64_t elements = Traits(*format).block_elements;
  std::byte block[256 * 4];
  float values[256];
  const uint64_t bytes = RowBytes(*format, elements);
  ES_CHECK(bytes <= sizeof(block) && tensor.bytes >= bytes);
  if (!gguf.ReadTensor(tensor, 0, std::span(block, bytes)).ok()) return;
  DequantizeRow(*format, block, values, elements);
  (void)FindNonFinite(*format, block, elements);
}

void Run(std::string bytes) {
  const auto gguf = Gguf::Open(std::make_shared<MemoryFile>(std::move(bytes)));
  if (!gguf.ok()) {
    const std::string message = gguf.status().message();
    ES_CHECK(!message.empty() && message.size() < 300);
    return;
  }
  WalkGguf(*gguf);
  for (const GgufTensor& tensor : gguf->tensors()) {
    ES_CHECK(tensor.offset + tensor.bytes <= gguf->file_bytes() && tensor.offset % gguf->alignment() == 0);
    DecodeStart(*gguf, tensor);
  }
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estream::Run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
