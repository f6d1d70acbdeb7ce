// SPDX-License-Identifier: Apache-2.0
// A super-block holds fp16 super-scales and small integer scales of its sub-blocks. The order of evaluation is fixed:
// the product of super-scale and scale first (exact in float), then times q, then the min.
#include "format/k_quants.h"

#include "format/little_endian.h"

namespace estream {

SixBitScales UnpackSixBitScales(const std::byte* packed) {
  const auto* p = reinterpret_cast<const uint8_t*>(packed);
  SixBitScales s;
  for (int i = 0; i < 4; ++i) {
    s.scale[i] = p[i] & 63;
    s.min[i] = p[4 + i] & 63;
    s.scale[4 + i] = static_cast<uint8_t>((p[8 + i] & 15) | ((p[i] >> 6) << 4));
    s.min[4 + i] = static_cast<uint8_t>((p[8 + i] >> 4) | ((p[4 + i] >> 6) << 4));
  }
  return s;
}

// d, dmin, 12 bytes of scales, 128 bytes of nibbles: each run of 32 bytes holds two sub-blocks, low nibbles first.
void DequantizeQ4K(const std::byte* src, float* dst, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; ++b, src += 144, dst += kSuperBlock) {
    const float d = LoadHalf(src);
    const float dmin = LoadHalf(src + 2);
    const SixBitScales s = UnpackSixBitScales(src + 4);
    for (int sub = 0; sub < kSubBlocks; ++sub) {
      const auto* q = reinterpret_cast<const uint8_t*>(src + 16) + (sub / 2) * kSubElements;
      const int shift = (sub % 2) * 4;
      const float scale = d * s.scale[sub];
      const float min = dmin * s.min[sub];
      for (int i = 0; i < kSubElements; ++i) {
        dst[sub * kSubElements + i] = scale * static_cast<float>((q[i] >> shift) & 15) - min;
      }
    }
  }
}

// As Q4_K, with 32 bytes of high bits before the nibbles: bit s of byte i belongs to value i of sub-block s.
void DequantizeQ5K(const std::byte* src, float* dst, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; ++b, src += 176, dst += kSuperBlock) {
    const float d = LoadHalf(src);
    const float dmin = LoadHalf(src + 2);
    const SixBitScales s = UnpackSixBitScales(src + 4);
    const auto* high = reinterpret_cast<const uint8_t*>(src + 16);
    for (int sub = 0; sub < kSubBlocks; ++sub) {
      const auto* q = reinterpret_cast<const uint8_t*>(src + 48) + (sub / 2) * kSubElements;
      const int shift = (sub % 2) * 4;
      const float scale = d * s.scale[sub];
      const float min = dmin * s.min[sub];
      for (int i = 0; i < kSubElements; ++i) {
        const int value = ((q[i] >> shift) & 15) | (((high[i] >> sub) & 1) << 4);
        dst[sub * kSubElements + i] = scale * static_cast<float>(value) - min;
      }
    }
  }
}

// 128 bytes of low nibbles, 64 of high bit pairs, 16 int8 scales, d. Each half of 128 values is four runs of 32: runs 0
// and 1 are the low nibbles of its two groups of 32 bytes, runs 2 and 3 the high ones; run r takes bits 2r, 2r+1 of the
// high byte. A scale serves 16 values.
void DequantizeQ6K(const std::byte* src, float* dst, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; ++b, src += 210, dst += kSuperBlock) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(src);
    const auto* scales = reinterpret_cast<const int8_t*>(src + 192);
    const float d = LoadHalf(src + 208);
    for (int run = 0; run < 8; ++run) {
      const int half = run / 4, r = run % 4;
      const uint8_t* low = bytes + half * 64 + (r % 2) * 32;
      const uint8_t* high = bytes + 128 + half * 32;
      const int low_shift = (r / 2) * 4;
      for (int i = 0; i < 32; ++i) {
        const float scale = d * scales[run * 2 + (i < 16 ? 0 : 1)];
        const int value = ((low[i] >> low_shift) & 15) | (((high[i] >> (2 * r)) & 3) << 4);
        dst[run * 32 + i] = scale * static_cast<float>(value - 32);
      }
    }
  }
}

}  // namespace estream
