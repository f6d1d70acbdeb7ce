// SPDX-License-Identifier: Apache-2.0
// Blocks cut by the ends of a read are made whole and copied in part.
#include "tools/synth/synth_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "format/gguf_writer.h"
#include "tools/synth/model_keys.h"
#include "tools/synth/vocabulary_maker.h"

namespace estream {
namespace {

constexpr uint64_t kMaxBlockBytes = 256;  // Q6_K has 210

// F32 values that are more than noise: a mean, and the columns from which a router draws its rows' offsets.
void Shift(const SynthTensor& tensor, uint64_t first, uint64_t count, std::byte* out) {
  const uint64_t cols = tensor.dims[0];
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t column = (first + i) % cols;
    float shift = tensor.mean;
    if (column < tensor.raised_columns) shift += tensor.row_offsets[(first + i) / cols];
    float value;
    std::memcpy(&value, out + 4 * i, sizeof(value));
    value += shift;
    std::memcpy(out + 4 * i, &value, sizeof(value));
  }
}

void FillWhole(const SynthTensor& tensor, uint64_t first, uint64_t count, std::byte* out) {
  FillBlocks(tensor.recipe, first, count, out);
  if (tensor.mean != 0 || tensor.raised_columns != 0) Shift(tensor, first, count, out);
}

}  // namespace

SynthFile::SynthFile(const ModelShape& shape, TypeMix mix, uint64_t seed)
    : name_(fmt::format("synthetic {}", shape.id)) {
  GgufWriter writer;
  SetModelKeys(shape, mix, seed, &writer);
  SetVocabulary(MakeVocabulary(shape), &writer);
  for (SynthTensor& tensor : ListTensors(shape, mix, seed)) {
    const uint64_t begin = writer.AddTensor(tensor.name, tensor.dims, static_cast<uint32_t>(tensor.recipe.format));
    const uint64_t bytes = writer.tensors().back().bytes;
    (tensor.is_expert() ? expert_bytes_ : other_bytes_) += bytes;
    tensors_.push_back({std::move(tensor), begin, begin + bytes});
  }
  header_ = writer.Header();
  for (Placed& placed : tensors_) {
    placed.begin += header_.size();
    placed.end += header_.size();
  }
  size_ = header_.size() + writer.data_bytes();
}

void SynthFile::FillBytes(const SynthTensor& tensor, uint64_t offset, std::span<std::byte> out) {
  const uint64_t block_bytes = Traits(tensor.recipe.format).block_bytes;
  std::array<std::byte, kMaxBlockBytes> block;
  while (!out.empty()) {
    const uint64_t first = offset / block_bytes, inside = offset % block_bytes;
    uint64_t bytes = out.size() / block_bytes * block_bytes;
    if (inside == 0 && bytes != 0) {
      FillWhole(tensor, first, bytes / block_bytes, out.data());
    } else {
      FillWhole(tensor, first, 1, block.data());
      bytes = std::min<uint64_t>(out.size(), block_bytes - inside);
      std::memcpy(out.data(), block.data() + inside, bytes);
    }
    offset += bytes;
    out = out.subspan(bytes);
  }
}

Status SynthFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Status::Corrupt(fmt::format("{}: ends before byte {}", name_, offset + out.size()));
  }
  const uint64_t end = offset + out.size();
  const auto part = [&](uint64_t from, uint64_t to) { return out.subspan(from - offset, to - from); };
  if (offset < header_.size()) {
    const uint64_t to = std::min<uint64_t>(end, header_.size());
    std::copy_n(header_.begin() + static_cast<ptrdiff_t>(offset), to - offset, out.begin());
  }
  auto next = std::upper_bound(tensors_.begin(), tensors_.end(), offset,
                               [](uint64_t at, const Placed& placed) { return at < placed.end; });
  uint64_t at = std::max<uint64_t>(offset, header_.size());
  for (; at < end; ++next) {
    const uint64_t begin = next == tensors_.end() ? size_ : next->begin;
    if (at < begin) {  // padding
      const std::span<std::byte> zeros = part(at, std::min(begin, end));
      std::fill(zeros.begin(), zeros.end(), std::byte{0});
      at += zeros.size();
    }
    if (at >= end) break;
    const uint64_t to = std::min(next->end, end);
    FillBytes(next->tensor, at - next->begin, part(at, to));
    at = to;
  }
  return Status::Ok();
}

}  // namespace estream
