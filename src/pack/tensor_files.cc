// SPDX-License-Identifier: Apache-2.0
// Buffers are placed so that whole pages of a direct read need no copy.
#include "pack/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked_math.h"
#include "base/macros.h"
#include "format/quote.h"
#include "pack/direct_file.h"

namespace estream {

TensorFiles::TensorFiles(const Gguf& gguf) : name_(&gguf.path()), tensors_(gguf.tensors()) {
  for (uint32_t i = 0; i < gguf.shard_count(); ++i) shards_.push_back(&gguf.shard(i));
}

Result<TensorFiles> TensorFiles::OpenDirect(const Gguf& gguf) {
  TensorFiles files;
  files.name_ = &gguf.path();
  files.tensors_ = gguf.tensors();
  for (uint32_t i = 0; i < gguf.shard_count(); ++i) {
    ES_ASSIGN_OR_RETURN(std::shared_ptr<const DirectFile> file, DirectFile::Open(gguf.shard(i).name()));
    files.shards_.push_back(file.get());
    files.owned_.push_back(std::move(file));
  }
  return files;
}

bool TensorFiles::direct() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const RandomAccessFile* file) {
    const auto* direct = dynamic_cast<const DirectFile*>(file);
    return direct != nullptr && direct->direct();
  });
}

Result<std::span<const std::byte>> TensorFiles::Read(const GgufTensor& tensor, uint64_t offset, uint64_t bytes,
                                                     AlignedBuffer* buffer) const {
  ES_DCHECK(offset <= tensor.bytes && bytes <= tensor.bytes - offset);
  const uint64_t at = tensor.offset + offset, within = at % kPageBytes;
  if (buffer->bytes() < within + bytes) {
    buffer->Reset();
    ES_ASSIGN_OR_RETURN(*buffer, AlignedBuffer::Allocate(AlignUp(within + bytes, kPageBytes)));
  }
  const std::span<std::byte> out(buffer->data() + within, bytes);
  ES_RETURN_IF_ERROR(shards_[tensor.shard]->ReadAt(at, out));
  return std::span<const std::byte>(out);
}

Status CheckFinite(const std::string& file, const GgufTensor& tensor, WeightFormat format, uint64_t first,
                   uint64_t rows, const std::byte* bytes, const std::string& record) {
  const uint64_t row_bytes = RowBytes(format, tensor.cols());
  for (uint64_t r = 0; r < rows; ++r) {
    const auto bad = FindNonFinite(format, bytes + r * row_bytes, tensor.cols());
    if (!bad) continue;
    return Status::Corrupt(fmt::format(
        "{}: tensor {} has a NaN or infinite {} in row {} at element {} ({})", ShownPath(file), Quoted(tensor.name),
        Traits(format).block_elements > 1 ? "block scale" : "value", first + r, *bad, record));
  }
  return Status::Ok();
}

}  // namespace estream
