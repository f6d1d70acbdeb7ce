// SPDX-License-Identifier: Apache-2.0
// Traits, exact dequantisation and the scan for unusable scales, one small function a format.
#include "format/weight_format.h"

#include <fmt/format.h>

#include <array>

#include "base/macros.h"
#include "format/gguf_types.h"
#include "format/k_quants.h"
#include "format/little_endian.h"

namespace estream {
namespace {

using DequantizeBlocks = void (*)(const std::byte* src, float* dst, uint64_t blocks);

void DequantizeF32(const std::byte* src, float* dst, uint64_t elements) {
  if (elements != 0) std::memcpy(dst, src, elements * 4);
}

void DequantizeF16(const std::byte* src, float* dst, uint64_t elements) {
  for (uint64_t i = 0; i < elements; ++i) dst[i] = LoadHalf(src + 2 * i);
}

void DequantizeBf16(const std::byte* src, float* dst, uint64_t elements) {
  for (uint64_t i = 0; i < elements; ++i) dst[i] = Bf16ToFloat(LoadLe<uint16_t>(src + 2 * i));
}

// Blocks of 32 share this order of nibbles: values 0-15 are the low ones of 16 bytes, values 16-31 the high ones.
int Nibble(const uint8_t* q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }

// d, nibbles: d * (q - 8).
void DequantizeQ40(const std::byte* src, float* dst, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; ++b, src += 18, dst += 32) {
    const float d = LoadHalf(src);
    const auto* q = reinterpret_cast<const uint8_t*>(src + 2);
    for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(Nibble(q, i) - 8);
  }
}

// d, m, nibbles: d * q + m.
void DequantizeQ41(const std::byte* src, float* dst, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; ++b, src += 20, dst += 32) {
    const float d = LoadHalf(src);
    const float m = LoadHalf(src + 2);
    const auto* q = reinterpret_cast<const uint8_t*>(src + 4);
    for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(Nibble(q, i)) + m;
  }
}

// Nibble i and bit i of `high` as its fifth bit.
int FiveBits(const uint8_t* q, uint32_t high, int i) { return Nibble(q, i) | static_cast<int>(((high >> i) & 1) << 4); }

// d, 32 high bits, nibbles: d * (q - 16).
void DequantizeQ50(const std::byte* src, float* dst, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; ++b, src += 22, dst += 32) {
    const float d = LoadHalf(src);
    const auto high = LoadLe<uint32_t>(src + 2);
    const auto* q = reinterpret_cast<const uint8_t*>(src + 6);
    for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(FiveBits(q, high, i) - 16);
  }
}

// d, m, 32 high bits, nibbles: d * q + m.
void DequantizeQ51(const std::byte* src, float* dst, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; ++b, src += 24, dst += 32) {
    const float d = LoadHalf(src);
    const float m = LoadHalf(src + 2);
    const auto high = LoadLe<uint32_t>(src + 4);
    const auto* q = reinterpret_cast<const uint8_t*>(src + 8);
    for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(FiveBits(q, high, i)) + m;
  }
}

// d, 32 int8: d * q.
void DequantizeQ80(const std::byte* src, float* dst, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; ++b, src += 34, dst += 32) {
    const float d = LoadHalf(src);
    const auto* q = reinterpret_cast<const int8_t*>(src + 2);
    for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(q[i]);
  }
}

// Where a block keeps the floats that scale all of it.
struct FormatRow {
  WeightFormat format;
  WeightFormatTraits traits;
  DequantizeBlocks dequantize;
  uint32_t scale_count;       // fp16 scales and mins of a block; 0: the value itself is the float
  uint32_t scale_offsets[2];  // their bytes in the block
};

constexpr std::array kFormats = {
    FormatRow{WeightFormat::kF32, {"F32", 1, 4}, DequantizeF32, 0, {}},
    FormatRow{WeightFormat::kF16, {"F16", 1, 2}, DequantizeF16, 0, {}},
    FormatRow{WeightFormat::kQ4_0, {"Q4_0", 32, 18}, DequantizeQ40, 1, {0}},
    FormatRow{WeightFormat::kQ4_1, {"Q4_1", 32, 20}, DequantizeQ41, 2, {0, 2}},
    FormatRow{WeightFormat::kQ5_0, {"Q5_0", 32, 22}, DequantizeQ50, 1, {0}},
    FormatRow{WeightFormat::kQ5_1, {"Q5_1", 32, 24}, DequantizeQ51, 2, {0, 2}},
    FormatRow{WeightFormat::kQ8_0, {"Q8_0", 32, 34}, DequantizeQ80, 1, {0}},
    FormatRow{WeightFormat::kQ4_K, {"Q4_K", 256, 144}, DequantizeQ4K, 2, {0, 2}},
    FormatRow{WeightFormat::kQ5_K, {"Q5_K", 256, 176}, DequantizeQ5K, 2, {0, 2}},
    FormatRow{WeightFormat::kQ6_K, {"Q6_K", 256, 210}, DequantizeQ6K, 1, {208}},
    FormatRow{WeightFormat::kBF16, {"BF16", 1, 2}, DequantizeBf16, 0, {}},
};

constexpr auto kFormatList = [] {
  std::array<WeightFormat, kFormats.size()> list{};
  for (size_t i = 0; i < kFormats.size(); ++i) list[i] = kFormats[i].format;
  return list;
}();

const FormatRow* FindRow(uint32_t id) {
  for (const FormatRow& row : kFormats) {
    if (static_cast<uint32_t>(row.format) == id) return &row;
  }
  return nullptr;
}

const FormatRow& RowOf(WeightFormat format) {
  const FormatRow* row = FindRow(static_cast<uint32_t>(format));
  ES_CHECK(row != nullptr);
  return *row;
}

// An exponent of all ones means NaN or infinity.
bool IsFiniteHalf(const std::byte* p) { return (LoadLe<uint16_t>(p) & 0x7C00u) != 0x7C00u; }

bool BlockIsFinite(const FormatRow& row, const std::byte* block) {
  if (row.format == WeightFormat::kF32) return (LoadLe<uint32_t>(block) & 0x7F800000u) != 0x7F800000u;
  if (row.format == WeightFormat::kBF16) return (LoadLe<uint16_t>(block) & 0x7F80u) != 0x7F80u;
  if (row.format == WeightFormat::kF16) return IsFiniteHalf(block);
  for (uint32_t i = 0; i < row.scale_count; ++i) {
    if (!IsFiniteHalf(block + row.scale_offsets[i])) return false;
  }
  return true;
}

}  // namespace

std::span<const WeightFormat> AllWeightFormats() { return kFormatList; }

const WeightFormatTraits& Traits(WeightFormat format) { return RowOf(format).traits; }

Result<WeightFormat> WeightFormatFromGgufType(uint32_t gguf_type) {
  if (const FormatRow* row = FindRow(gguf_type)) return row->format;
  const GgufTypeTraits* known = FindGgufType(gguf_type);
  if (known == nullptr) return Status::Unsupported(fmt::format("weight type {} is not known", gguf_type));
  return Status::Unsupported(fmt::format("weight type {} ({}) is not supported", known->name, gguf_type));
}

uint64_t RowBytes(WeightFormat format, uint64_t elements) {
  const WeightFormatTraits& traits = Traits(format);
  ES_DCHECK(elements % traits.block_elements == 0);
  return elements / traits.block_elements * traits.block_bytes;
}

void DequantizeRow(WeightFormat format, const std::byte* src, float* dst, uint64_t elements) {
  const FormatRow& row = RowOf(format);
  ES_DCHECK(elements % row.traits.block_elements == 0);
  row.dequantize(src, dst, elements / row.traits.block_elements);
}

std::optional<uint64_t> FindNonFinite(WeightFormat format, const std::byte* src, uint64_t elements) {
  const FormatRow& row = RowOf(format);
  ES_DCHECK(elements % row.traits.block_elements == 0);
  const uint64_t blocks = elements / row.traits.block_elements;
  for (uint64_t b = 0; b < blocks; ++b) {
    if (!BlockIsFinite(row, src + b * row.traits.block_bytes)) return b * row.traits.block_elements;
  }
  return std::nullopt;
}

}  // namespace estream
