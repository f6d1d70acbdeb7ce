// SPDX-License-Identifier: Apache-2.0
// A whole synthetic model file as a function from position to byte: any part of it can be read without the rest
// existing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "estream/status.h"
#include "format/file.h"
#include "tools/synth/model_shape.h"
#include "tools/synth/tensor_list.h"
#include "tools/synth/type_mix.h"

namespace estream {

// Holds the header, a few MB for the largest vocabulary; weights are made when read. As a RandomAccessFile it opens
// like any model without being written first. The same shape, mix and seed give the same bytes.
//
// Threads: const members may run at once.
class SynthFile final : public RandomAccessFile {
 public:
  SynthFile(const ModelShape& shape, TypeMix mix, uint64_t seed);

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }

  // What stands before the first weight.
  std::span<const std::byte> header() const { return header_; }
  // Bytes of tensors that belong to routed experts, and of all others.
  uint64_t expert_bytes() const { return expert_bytes_; }
  uint64_t other_bytes() const { return other_bytes_; }

 private:
  struct Placed {
    SynthTensor tensor;
    uint64_t begin = 0, end = 0;  // in the file, without padding
  };
  // Bytes [offset, offset + out.size()) of `tensor`. Pre: inside it.
  static void FillBytes(const SynthTensor& tensor, uint64_t offset, std::span<std::byte> out);

  std::string name_;
  std::vector<std::byte> header_;
  std::vector<Placed> tensors_;  // by place
  uint64_t size_ = 0;
  uint64_t expert_bytes_ = 0, other_bytes_ = 0;
};

}  // namespace estream
