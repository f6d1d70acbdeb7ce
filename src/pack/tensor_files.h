// SPDX-License-Identifier: Apache-2.0
// The tensors of a model and the files that hold their bytes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "estream/status.h"
#include "format/gguf.h"
#include "format/weight_format.h"

namespace estream {

class TensorFiles {
 public:
  // Reads as `gguf` does: through the page cache. `gguf` must outlive it.
  explicit TensorFiles(const Gguf& gguf);
  // The same tensors, read past the page cache where possible. Errors: as OpenFile.
  static Result<TensorFiles> OpenDirect(const Gguf& gguf);

  const std::string& name() const { return *name_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // Whether all reads have bypassed the page cache so far.
  bool direct() const;

  // Reads `bytes` of a tensor from `offset` into `buffer`, which grows as needed.
  //
  //   returns  the bytes; valid until `buffer` is used again
  //
  // Threads: any, at once, each with its own buffer.
  // Errors:  Io, Corrupt when the file has become shorter, OverBudget. Pre: inside the tensor.
  Result<std::span<const std::byte>> Read(const GgufTensor& tensor, uint64_t offset, uint64_t bytes,
                                          AlignedBuffer* buffer) const;
  // A hint that these bytes will be read soon. Pre: inside the tensor.
  void WillRead(const GgufTensor& tensor, uint64_t offset, uint64_t bytes) const {
    shards_[tensor.shard]->WillRead(tensor.offset + offset, bytes);
  }

 private:
  TensorFiles() = default;
  const std::string* name_ = nullptr;
  std::span<const GgufTensor> tensors_;
  std::vector<const RandomAccessFile*> shards_;
  std::vector<std::shared_ptr<const RandomAccessFile>> owned_;  // those of OpenDirect
};

// Corrupt when one of `rows` consecutive rows of a tensor holds a NaN or infinite scale or value: names the tensor, the
// row (counted over all its slower dimensions), the element and `record`, the record that the row goes to.
Status CheckFinite(const std::string& file, const GgufTensor& tensor, WeightFormat format, uint64_t first,
                   uint64_t rows, const std::byte* bytes, const std::string& record);

}  // namespace estream
