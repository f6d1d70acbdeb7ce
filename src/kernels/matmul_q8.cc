// SPDX-License-Identifier: Apache-2.0
// Two ways to the same bits. Few rows: weights go from the panel to registers and sums stay there. Many rows: a tile is
// unpacked once, then all rows pass over it while it is in the L1 cache.
#include "kernels/matmul_q8.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/macros.h"
#include "format/tile.h"
#include "kernels/target.h"

#define HWY_WANT_AVX3_DL
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_q8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/int8_dot-inl.h"
#include "kernels/simd-inl.h"
#include "kernels/tile_bytes-inl.h"
#include "kernels/tile_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace estream {
namespace HWY_NAMESPACE {
namespace {

// Most rows of a micro-kernel, powers of two. Beside 2 or 4 vectors of weights, 1 of activations and a few constants
// each row takes two integer accumulators and, where its sums stay in registers, two of floats. AVX-512 has 32
// registers, AVX2 has 16; the portable form needs many more than these.
// NEON has 32, of which g++ 12 wants the rest for activations it loads ahead.
//
// The rows up to which weights are best read as they are stored, without super-scales and with: crossovers of
// bench/kernel_bench. With VNNI Q4_0 reaches 67 % of the peak at 8 rows stored and 59 % prepared, 66 and 65 at 16, 64
// and 69 at 48; Q6_K 54 and 47 at 8, 49 and 51 at 12. Without VNNI a product takes two instructions, with which
// unpacking competes, and preparing pays earlier.
#if HWY_TARGET == HWY_AVX3_DL
constexpr uint32_t kPreparedRows = 8, kStoredRows = 4, kMostStored = 16, kMostStoredSuper = 8;
#elif HWY_TARGET == HWY_AVX3
constexpr uint32_t kPreparedRows = 8, kStoredRows = 4, kMostStored = 6, kMostStoredSuper = 4;
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
constexpr uint32_t kPreparedRows = 4, kStoredRows = 2, kMostStored = 4, kMostStoredSuper = 2;
#else
constexpr uint32_t kPreparedRows = 2, kStoredRows = 2, kMostStored = 2, kMostStoredSuper = 2;
#endif

// The panel that comes next, brought into the L2 cache along with the work on this one, since processors stop fetching
// ahead by themselves where a page ends, every eight tiles: 8 routes of an expert in memory go from 45 to 63 % of the
// peak.
class NextPanel {
 public:
  NextPanel() = default;
  // Of a panel that is fetched along with `tiles` tiles.
  NextPanel(std::span<const std::byte> panel, uint64_t tiles)
      : start_(reinterpret_cast<const uint8_t*>(panel.data())),
        bytes_(panel.size()),
        share_(AlignUp(CeilDiv(bytes_, tiles), kLine)) {}

  // Tile `tile`'s share of the panel.
  HWY_INLINE void Fetch(uint64_t tile) const {
    const uint64_t end = std::min(bytes_, (tile + 1) * share_);
    for (uint64_t at = tile * share_; at < end; at += kLine) __builtin_prefetch(start_ + at, 0, /*locality=*/2);
  }

 private:
  static constexpr uint64_t kLine = 64;

  const uint8_t* start_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t share_ = 0;
};

// What a product reads and writes, without its rows.
struct Product {
  PanelReader panel;
  NextPanel next;
  QuantizedRows a;
  size_t c_stride;

  uint64_t tiles() const { return a.cols / kTileElements; }
};

// --- Few rows.

// A chunk of a panel that stays in the L1 cache while all rows pass over it: the tiles of one super-block, 4 to 9 KiB.
constexpr uint64_t kChunkTiles = kTilesPerSuper;

// c[r, n] continued over the tiles [first, end), for kRows rows from `row` on and the two vectors n from `column` on.
template <class Format, uint32_t kRows>
HWY_NOINLINE void StoredKernel(const Product& product, uint64_t first, uint64_t end, uint32_t row, size_t column,
                               float* c, bool fetch) {
  const F32 d;
  const size_t lanes = hn::Lanes(d), c_stride = product.c_stride;
  const DotVec offset = DotOffset(Format::kOffset);
  const StoredTiles<Format> tiles = {{}, product.panel};
  const NextPanel next = fetch ? product.next : NextPanel{};
  const uint64_t rows_a_tile = product.a.rows, at = first * rows_a_tile + row;
  Rows rows = {product.a.values + at * kTileElements, product.a.blocks + at};
  c += column;
#define ES_LOAD(R)                                     \
  VF left##R, right##R;                                \
  if constexpr (R < kRows) {                           \
    left##R = hn::LoadU(d, c + R * c_stride);          \
    right##R = hn::LoadU(d, c + R * c_stride + lanes); \
  }
  ES_EACH_ROW(ES_LOAD)
#undef ES_LOAD
  for (uint64_t t = first; t < end; ++t) {
    next.Fetch(t);
    const TilePair<StoredTiles<Format>> tile = {tiles.At(t, column), tiles.At(t, column + lanes)};
    const Sums sum = TileSums<StoredTiles<Format>, kRows>(tile, rows, offset);
    const VF scale_left = Format::Scale(tile.left), scale_right = Format::Scale(tile.right);
#define ES_ADD(R)                                                                                     \
  if constexpr (R < kRows) {                                                                          \
    const VF scale = hn::Set(d, rows.blocks[R].scale);                                                \
    left##R = FusedMulAdd(d, hn::Mul(scale_left, scale), hn::ConvertTo(d, sum.left##R), left##R);     \
    right##R = FusedMulAdd(d, hn::Mul(scale_right, scale), hn::ConvertTo(d, sum.right##R), right##R); \
    if constexpr (Format::kHasMin) {                                                                  \
      const VF scaled_sum = hn::Set(d, rows.blocks[R].scaled_sum);                                    \
      left##R = FusedMulAdd(d, Format::Min(tile.left), scaled_sum, left##R);                          \
      right##R = FusedMulAdd(d, Format::Min(tile.right), scaled_sum, right##R);                       \
    }                                                                                                 \
  }
    ES_EACH_ROW(ES_ADD)
#undef ES_ADD
    rows.values += rows_a_tile * kTileElements;
    rows.blocks += rows_a_tile;
  }
#define ES_STORE(R)                                    \
  if constexpr (R < kRows) {                           \
    hn::StoreU(left##R, d, c + R * c_stride);          \
    hn::StoreU(right##R, d, c + R * c_stride + lanes); \
  }
  ES_EACH_ROW(ES_STORE)
#undef ES_STORE
}

// Some tiles and all rows: blocks of kRows, then of half as many, down to one.
template <class Format, uint32_t kRows = kStoredRows>
HWY_INLINE void RunStoredRows(const Product& product, uint64_t first, uint64_t end, uint32_t row, uint32_t rows,
                              float* c, bool fetch) {
  for (; rows >= kRows; rows -= kRows) {
    for (size_t column = 0; column < kTileRows; column += 2 * hn::Lanes(F32())) {
      StoredKernel<Format, kRows>(product, first, end, row, column, c, fetch);
      fetch = false;
    }
    row += kRows;
    c += kRows * product.c_stride;
  }
  if constexpr (kRows > 1) RunStoredRows<Format, kRows / 2>(product, first, end, row, rows, c, fetch);
}

template <class Format>
void RunStored(const Product& product, uint32_t first_row, uint32_t rows, float* c) {
  for (uint32_t r = 0; r < rows; ++r) std::fill_n(c + r * product.c_stride, kTileRows, 0.0f);
  for (uint64_t tile = 0; tile < product.tiles(); tile += kChunkTiles) {
    const uint64_t end = std::min(tile + kChunkTiles, product.tiles());
    RunStoredRows<Format>(product, tile, end, first_row, rows, c, /*fetch=*/true);
  }
}

// --- Many rows. Sums wait in a scratch of 96 rows x 32 (12 KiB), which with a tile (2.5 KiB) and the rows' blocks (4.5
// KiB) stays in the L1 cache, wherever c lies.

constexpr uint32_t kChunkRows = 96;

// c = fma(fl(weight scale * scale), sum, c), and with a min c = fma(min, scaled sum, c).
template <class Source, uint32_t kRows>
HWY_INLINE void AddScaled(const TilePair<Source>& tile, const Rows& rows, const Sums& sum, float* sums) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  const VF scale_left = Source::Scale(tile.left), scale_right = Source::Scale(tile.right);
#define ES_ADD(R)                                                                                                   \
  if constexpr (R < kRows) {                                                                                        \
    float* c = sums + R * kTileRows;                                                                                \
    const VF scale = hn::Set(d, rows.blocks[R].scale);                                                              \
    VF left = FusedMulAdd(d, hn::Mul(scale_left, scale), hn::ConvertTo(d, sum.left##R), hn::Load(d, c));            \
    VF right = FusedMulAdd(d, hn::Mul(scale_right, scale), hn::ConvertTo(d, sum.right##R), hn::Load(d, c + lanes)); \
    if constexpr (Source::kHasMin) {                                                                                \
      const VF scaled_sum = hn::Set(d, rows.blocks[R].scaled_sum);                                                  \
      left = FusedMulAdd(d, Source::Min(tile.left), scaled_sum, left);                                              \
      right = FusedMulAdd(d, Source::Min(tile.right), scaled_sum, right);                                           \
    }                                                                                                               \
    hn::Store(left, d, c);                                                                                          \
    hn::Store(right, d, c + lanes);                                                                                 \
  }
  ES_EACH_ROW(ES_ADD)
#undef ES_ADD
}

// Adds one tile to the sums of `count` blocks of kRows rows.
template <class Source, uint32_t kRows>
HWY_NOINLINE void PreparedKernel(const PreparedBytes& bytes, const int8_t* values, const ActivationBlock* blocks,
                                 float* sums, uint32_t count) {
  const DotVec offset = DotOffset(Source::kOffset);
  const Source source = {&bytes};
  const size_t lanes = hn::Lanes(F32());
  for (; count > 0; --count) {
    const Rows rows = {values, blocks};
    for (size_t column = 0; column < kTileRows; column += 2 * lanes) {
      const TilePair<Source> tile = {source.At(0, column), source.At(0, column + lanes)};
      AddScaled<Source, kRows>(tile, rows, TileSums<Source, kRows>(tile, rows, offset), sums + column);
    }
    values += kRows * kTileElements;
    blocks += kRows;
    sums += kRows * kTileRows;
  }
}

// Adds one tile to the sums of all rows: blocks of kRows, then of half as many, down to one.
template <class Source, uint32_t kRows = kPreparedRows>
HWY_INLINE void RunPreparedRows(const PreparedBytes& bytes, const int8_t* values, const ActivationBlock* blocks,
                                float* sums, uint32_t rows) {
  const uint32_t count = rows / kRows, done = count * kRows;
  if (count > 0) PreparedKernel<Source, kRows>(bytes, values, blocks, sums, count);
  if constexpr (kRows > 1) {
    RunPreparedRows<Source, kRows / 2>(bytes, values + done * kTileElements, blocks + done, sums + done * kTileRows,
                                       rows - done);
  }
}

template <class Format>
void RunPrepared(const Product& product, uint32_t first_row, uint32_t rows, float* c) {
  const QuantizedRows& a = product.a;
  NextPanel next = product.next;
  PreparedBytes bytes;
  alignas(64) float sums[kChunkRows * kTileRows];
  while (rows > 0) {
    const uint32_t take = std::min(rows, kChunkRows);
    std::fill_n(sums, take * kTileRows, 0.0f);
    for (uint64_t t = 0; t < product.tiles(); ++t) {
      next.Fetch(t);
      PrepareTile<Format>(product.panel, t, bytes);
      const uint64_t at = t * a.rows + first_row;
      RunPreparedRows<PreparedTile<Format>>(bytes, a.values + at * kTileElements, a.blocks + at, sums, take);
    }
    for (uint32_t r = 0; r < take; ++r) {
      std::memcpy(c + r * product.c_stride, sums + r * kTileRows, sizeof(float) * kTileRows);
    }
    c += take * product.c_stride;
    first_row += take;
    rows -= take;
    next = {};
  }
}

#undef ES_EACH_ROW

template <class Format>
void RunPanel(const Product& product, uint32_t first_row, uint32_t rows, float* c, Q8Path path) {
  constexpr uint32_t kMost = Format::kHasSuper ? kMostStoredSuper : kMostStored;
  if (path == Q8Path::kFastest) path = rows <= kMost ? Q8Path::kStored : Q8Path::kPrepared;
  if (path == Q8Path::kStored) {
    RunStored<Format>(product, first_row, rows, c);
  } else {
    RunPrepared<Format>(product, first_row, rows, c);
  }
}

template <DotUnit kUnit>
void RunFormat(WeightFormat format, const std::byte* panel, const QuantizedRows& a, uint32_t first_row, uint32_t rows,
               float* c, size_t c_stride, std::span<const std::byte> next, Q8Path path) {
  const Product product = {PanelReader(format, panel, a.cols), NextPanel(next, a.cols / kTileElements), a, c_stride};
  switch (format) {
    case WeightFormat::kQ4_0:
      return RunPanel<WithUnit<Q8OfQ4_0, kUnit>>(product, first_row, rows, c, path);
    case WeightFormat::kQ4_1:
      return RunPanel<WithUnit<Q8OfQ4_1, kUnit>>(product, first_row, rows, c, path);
    case WeightFormat::kQ5_0:
      return RunPanel<WithUnit<Q8OfQ5_0, kUnit>>(product, first_row, rows, c, path);
    case WeightFormat::kQ5_1:
      return RunPanel<WithUnit<Q8OfQ5_1, kUnit>>(product, first_row, rows, c, path);
    case WeightFormat::kQ8_0:
      return RunPanel<WithUnit<Q8OfQ8_0, kUnit>>(product, first_row, rows, c, path);
    case WeightFormat::kQ4_K:
      return RunPanel<WithUnit<Q8OfQ4_K, kUnit>>(product, first_row, rows, c, path);
    case WeightFormat::kQ5_K:
      return RunPanel<WithUnit<Q8OfQ5_K, kUnit>>(product, first_row, rows, c, path);
    case WeightFormat::kQ6_K:
      return RunPanel<WithUnit<Q8OfQ6_K, kUnit>>(product, first_row, rows, c, path);
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return;  // excluded by the precondition
  }
}

}  // namespace

void MatMulPanelQ8Target(WeightFormat format, const std::byte* panel, const QuantizedRows& a, uint32_t first_row,
                         uint32_t rows, float* c, size_t c_stride, std::span<const std::byte> next, Q8Path path) {
#if HWY_TARGET == HWY_NEON
  if (HasDotProduct()) {
    return RunFormat<DotUnit::kDotProduct>(format, panel, a, first_row, rows, c, c_stride, next, path);
  }
#endif
  RunFormat<DotUnit::kBase>(format, panel, a, first_row, rows, c, c_stride, next, path);
}

}  // namespace HWY_NAMESPACE
}  // namespace estream
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace estream {

HWY_EXPORT(MatMulPanelQ8Target);

bool HasQ8(WeightFormat format) {
  return format != WeightFormat::kF32 && format != WeightFormat::kF16 && format != WeightFormat::kBF16;
}

void MatMulPanelQ8(WeightFormat format, const std::byte* panel, const QuantizedRows& a, uint32_t first_row,
                   uint32_t rows, float* c, size_t c_stride, std::span<const std::byte> next, Q8Path path) {
  ES_DCHECK(HasQ8(format) && CanTile(format, a.cols) && first_row + rows <= a.rows);
  HWY_DYNAMIC_DISPATCH(MatMulPanelQ8Target)(format, panel, a, first_row, rows, c, c_stride, next, path);
}

}  // namespace estream
#endif  // HWY_ONCE
