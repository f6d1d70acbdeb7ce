// SPDX-License-Identifier: Apache-2.0
// Codes are uniform random bits; scales are one of a few values around the one that gives the wanted deviation. Each
// format's constants follow from the variance of its codes, stated above it.
#include "tools/synth/random_blocks.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "base/macros.h"
#include "tools/synth/counter_random.h"

namespace estream {
namespace {

// Draws a block may take: the counter of draw i of block b is b * kDraws + i.
constexpr uint64_t kDraws = 32;

// Draws of one block.
class Draws {
 public:
  Draws(uint64_t key, uint64_t block) : key_(key), counter_(block * kDraws) {}
  uint64_t Next() { return RandomBits(key_, counter_++); }
  void Bytes(std::byte* out, size_t bytes) {  // a multiple of 4
    for (; bytes >= 8; bytes -= 8, out += 8) Store(Next(), out);
    if (bytes == 4) Store(static_cast<uint32_t>(Next()), out);
  }
  template <class T>
  static void Store(T value, std::byte* out) {
    std::memcpy(out, &value, sizeof(T));
  }

 private:
  const uint64_t key_;
  uint64_t counter_;
};

// Sets a bit in every byte of the 8 at `p`.
void SetBits(uint64_t mask, std::byte* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof(value));
  value |= mask;
  std::memcpy(p, &value, sizeof(value));
}

// Scales around `scale` whose mean square is scale²; the last four are the negated first four.
std::array<uint16_t, 8> ScaleChoices(float scale) {
  static constexpr float kFactors[4] = {0.75f, 0.9f, 1.05f, 1.2456f};
  std::array<uint16_t, 8> choices;
  for (size_t i = 0; i < 4; ++i) {
    choices[i] = FloatToHalf(scale * kFactors[i]);
    choices[i + 4] = FloatToHalf(-scale * kFactors[i]);
  }
  return choices;
}

// Formats of one scale and 32 codes. Codes of n bits around their middle: variance (4^n - 1) / 12 + 1/4.
//   Q4_0: d, 16 bytes of nibbles; value d (q - 8)
//   Q5_0: d, 4 bytes of high bits, 16 of nibbles; value d (q - 16)
//   Q8_0: d, 32 signed bytes; value d q
struct SmallBlock {
  float code_deviation;
  uint32_t code_bytes;
};
constexpr SmallBlock SmallBlockOf(WeightFormat format) {
  if (format == WeightFormat::kQ4_0) return {4.637f, 16};
  if (format == WeightFormat::kQ5_0) return {9.247f, 20};
  return {73.9f, 32};
}

template <WeightFormat kFormat>
void FillSmall(const BlockRecipe& recipe, uint64_t first, uint64_t count, std::byte* out) {
  constexpr SmallBlock kBlock = SmallBlockOf(kFormat);
  const std::array<uint16_t, 8> scales = ScaleChoices(recipe.deviation / kBlock.code_deviation);
  uint64_t column = first % recipe.row_blocks;
  for (uint64_t b = first; b < first + count; ++b, out += 2 + kBlock.code_bytes) {
    Draws draws(recipe.key, b);
    const bool raised = column < recipe.raised_blocks;
    if (++column == recipe.row_blocks) column = 0;
    Draws::Store(scales[draws.Next() >> (raised ? 62 : 61)], out);
    draws.Bytes(out + 2, kBlock.code_bytes);
    if constexpr (kFormat == WeightFormat::kQ4_0) {
      if (raised) {  // codes 8..15
        for (uint32_t i = 0; i < 16; i += 8) SetBits(0x8888888888888888u, out + 2 + i);
      }
    }
    if constexpr (kFormat == WeightFormat::kQ8_0) {
      // Quantizers write -127..127 and kernels may count on it.
      for (uint32_t i = 0; i < 32; ++i) out[2 + i] = out[2 + i] == std::byte{0x80} ? std::byte{0x81} : out[2 + i];
    }
  }
}

// Q5_1: d, m, 4 bytes of high bits, 16 of nibbles; value d q + m. With m = -15.5 d codes have mean 0 and variance
// (32² - 1) / 12.
void FillQ5_1(const BlockRecipe& recipe, uint64_t first, uint64_t count, std::byte* out) {
  const float scale = recipe.deviation / 9.233f;
  const std::array<uint16_t, 8> scales = ScaleChoices(scale);
  const std::array<uint16_t, 8> mins = ScaleChoices(-15.5f * scale);
  for (uint64_t b = first; b < first + count; ++b, out += 24) {
    Draws draws(recipe.key, b);
    const uint64_t choice = draws.Next() >> 61;
    Draws::Store(scales[choice], out);
    Draws::Store(mins[choice], out + 2);
    draws.Bytes(out + 4, 20);
  }
}

// The 12 bytes that hold eight 6-bit scales and eight 6-bit mins of Q4_K and Q5_K: the first four of each in the low
// six bits of bytes 0-3 and 4-7, the other four split between bytes 8-11 (low nibble scale, high nibble min) and the
// free high bits of bytes 0-7.
void StoreSixBits(const uint8_t (&scales)[8], const uint8_t (&mins)[8], std::byte* out) {
  for (uint32_t j = 0; j < 4; ++j) {
    out[j] = static_cast<std::byte>(scales[j] | (scales[j + 4] >> 4) << 6);
    out[j + 4] = static_cast<std::byte>(mins[j] | (mins[j + 4] >> 4) << 6);
    out[j + 8] = static_cast<std::byte>((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
  }
}

// Q4_K and Q5_K: d, dmin, 12 bytes of scales, (32 bytes of high bits,) 128 of nibbles; value d sc q - dmin m. With sc
// uniform in 34..49 (root mean square 41.76), m within 2 of it and dmin = middle · d, values have mean about 0 and the
// variance of codes, (16² - 1) / 12 or (32² - 1) / 12, plus what m adds.
struct SuperBlock {
  float middle;
  float code_deviation;
  uint32_t code_bytes;
};
constexpr SuperBlock SuperBlockOf(WeightFormat format) {
  if (format == WeightFormat::kQ4_K) return {7.5f, 4.615f, 128};
  return {15.5f, 9.24f, 160};
}

template <WeightFormat kFormat>
void FillSuper(const BlockRecipe& recipe, uint64_t first, uint64_t count, std::byte* out) {
  constexpr SuperBlock kBlock = SuperBlockOf(kFormat);
  const float scale = recipe.deviation / (kBlock.code_deviation * 41.76f);
  const uint16_t d = FloatToHalf(scale);
  const uint16_t dmin = FloatToHalf(scale * kBlock.middle);
  for (uint64_t b = first; b < first + count; ++b, out += 16 + kBlock.code_bytes) {
    Draws draws(recipe.key, b);
    Draws::Store(d, out);
    Draws::Store(dmin, out + 2);
    static constexpr uint8_t kNear[4] = {0, 1, 3, 4};  // m - sc + 2
    uint8_t scales[8], mins[8];
    uint64_t bits = draws.Next();
    for (uint32_t j = 0; j < 8; ++j, bits >>= 8) {
      scales[j] = static_cast<uint8_t>(34 + (bits & 15));
      mins[j] = static_cast<uint8_t>(scales[j] + kNear[(bits >> 4) & 3] - 2);
    }
    StoreSixBits(scales, mins, out + 4);
    draws.Bytes(out + 16, kBlock.code_bytes);
    if constexpr (kFormat == WeightFormat::kQ4_K) {
      if (b % recipe.row_blocks < recipe.raised_blocks) {  // codes 8..15
        for (uint32_t i = 0; i < 128; i += 8) SetBits(0x8888888888888888u, out + 16 + i);
      }
    }
  }
}

// Q6_K: 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, d; value d sc (q - 32). Variance of codes
// (64² - 1) / 12 + 1/4; |sc| is uniform in 41..104, root mean square 74.83.
void FillQ6_K(const BlockRecipe& recipe, uint64_t first, uint64_t count, std::byte* out) {
  const uint16_t d = FloatToHalf(recipe.deviation / (18.48f * 74.83f));
  for (uint64_t b = first; b < first + count; ++b, out += 210) {
    Draws draws(recipe.key, b);
    const bool raised = b % recipe.row_blocks < recipe.raised_blocks;
    for (uint32_t half = 0; half < 16; half += 8) {
      uint64_t bits = draws.Next();
      for (uint32_t j = 0; j < 8; ++j, bits >>= 8) {
        const int size = 41 + static_cast<int>(bits & 63);
        out[192 + half + j] = static_cast<std::byte>((bits & 64) != 0 && !raised ? -size : size);
      }
    }
    draws.Bytes(out, 192);
    if (raised) {  // codes 32..63: the upper bit of every pair
      for (uint32_t i = 128; i < 192; i += 8) SetBits(0xAAAAAAAAAAAAAAAAu, out + i);
    }
    Draws::Store(d, out + 208);
  }
}

void FillF16(const BlockRecipe& recipe, uint64_t first, uint64_t count, std::byte* out) {
  for (uint64_t i = first; i < first + count; ++i, out += 2) {
    Draws::Store(FloatToHalf(RandomNormal(RandomBits(recipe.key, i)) * recipe.deviation), out);
  }
}

void FillF32(const BlockRecipe& recipe, uint64_t first, uint64_t count, std::byte* out) {
  for (uint64_t i = first; i < first + count; ++i, out += 4) {
    Draws::Store(RandomNormal(RandomBits(recipe.key, i)) * recipe.deviation, out);
  }
}

using FillFunction = void (*)(const BlockRecipe&, uint64_t, uint64_t, std::byte*);

FillFunction FunctionFor(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return FillF32;
    case WeightFormat::kF16:
      return FillF16;
    case WeightFormat::kQ4_0:
      return FillSmall<WeightFormat::kQ4_0>;
    case WeightFormat::kQ5_0:
      return FillSmall<WeightFormat::kQ5_0>;
    case WeightFormat::kQ5_1:
      return FillQ5_1;
    case WeightFormat::kQ8_0:
      return FillSmall<WeightFormat::kQ8_0>;
    case WeightFormat::kQ4_K:
      return FillSuper<WeightFormat::kQ4_K>;
    case WeightFormat::kQ5_K:
      return FillSuper<WeightFormat::kQ5_K>;
    case WeightFormat::kQ6_K:
      return FillQ6_K;
    default:
      return nullptr;
  }
}

}  // namespace

void FillBlocks(const BlockRecipe& recipe, uint64_t first, uint64_t count, std::byte* out) {
  const FillFunction fill = FunctionFor(recipe.format);
  ES_CHECK(fill != nullptr);
  fill(recipe, first, count, out);
}

bool MakesBlocks(WeightFormat format) { return FunctionFor(format) != nullptr; }

}  // namespace estream
