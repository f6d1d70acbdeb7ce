// SPDX-License-Identifier: Apache-2.0
// Each kernel on one core, on data as large as in a real layer.
#include "bench/kernel_speed.h"

#include <fmt/format.h>

#include <limits>
#include <random>
#include <vector>

#include "format/tile.h"
#include "kernels/decode_panel.h"
#include "kernels/matmul.h"
#include "kernels/matmul_q8.h"
#include "kernels/peak.h"
#include "kernels/quantize.h"

namespace estream {
namespace {

constexpr uint64_t kCols = 2048;  // K
constexpr uint64_t kRows = 1024;  // N
constexpr uint64_t kChunk = 512;  // elements decoded at once: 64 KiB of floats
constexpr uint32_t kTokens[] = {1, 6, 8, 24, 48, 96, 192};
constexpr uint32_t kTokensQ8[] = {1, 2, 4, 8, 12, 16, 24, 48, 96, 192};

// A tiled matrix of finite values.
struct Matrix {
  Matrix(WeightFormat f, uint64_t n) : format(f), layout(MakePanelLayout(f, kCols)), panels(n / kTileRows) {
    // Bytes below 0x38 make small positive numbers in every format, as scales and as floats.
    std::mt19937 rng(1);
    bytes.resize(layout.bytes * panels);
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng() % 0x38);
  }
  const std::byte* panel(uint64_t p) const { return bytes.data() + p * layout.bytes; }

  WeightFormat format;
  PanelLayout layout;
  uint64_t panels;
  std::vector<std::byte> bytes;
};

std::vector<float> RandomRows(uint64_t tokens) {
  std::mt19937 rng(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(tokens * kCols);
  for (float& v : x) v = uniform(rng);
  return x;
}

// Quantised activations and their memory.
struct Quantized {
  explicit Quantized(uint32_t tokens)
      : values(QuantizedValueBytes(tokens, kCols)),
        blocks(tokens * (kCols / 32)),
        view{tokens, kCols, values.data(), blocks.data()} {
    const std::vector<float> x = RandomRows(tokens);
    for (uint32_t row = 0; row < tokens; ++row) QuantizeRow(x.data() + row * kCols, row, view);
  }
  std::vector<int8_t> values;
  std::vector<ActivationBlock> blocks;
  QuantizedRows view;
};

double PeakOf(const Effort& effort, PeakMix mix, ThreadPool* pool) {
  constexpr uint64_t kRounds = 4000;
  const uint64_t work = RunPeakLoop(mix, kRounds);
  if (work == 0) return std::numeric_limits<double>::quiet_NaN();
  const uint32_t threads = pool == nullptr ? 1 : pool->threads();
  const auto run = [&] {
    if (pool == nullptr) {
      RunPeakLoop(mix, kRounds);
    } else {
      pool->Run(threads, [&](uint32_t, uint64_t) { RunPeakLoop(mix, 50 * kRounds); });
    }
  };
  const double seconds = MedianSeconds(effort, pool == nullptr ? kThreadClock : kWallClock, run);
  return 1e-9 * static_cast<double>(work) * (pool == nullptr ? 1 : 50 * threads) / seconds;
}

}  // namespace

ReportTable MeasurePeaks(const Effort& effort, ThreadPool& pool) {
  ReportTable table = {.title = "Peak, GMAC/s", .label = "instructions", .columns = {"1 core"}, .rows = {}};
  if (pool.threads() > 1) table.columns.push_back(fmt::format("{} threads", pool.threads()));
  const std::pair<PeakMix, const char*> mixes[] = {{PeakMix::kFma, "f32 fused multiply-add"},
                                                   {PeakMix::kInt8Pair, "int8 pairs and addition"},
                                                   {PeakMix::kInt8Quad, "int8 quads (VNNI)"}};
  for (const auto& [mix, name] : mixes) {
    ReportTable::Row row = {name, {PeakOf(effort, mix, nullptr)}};
    if (pool.threads() > 1) row.values.push_back(PeakOf(effort, mix, &pool));
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportTable MeasureDecoding(const Effort& effort) {
  ReportTable table = {.title = fmt::format("Panels to f32, [{}, {}], 1 core", kRows, kCols),
                       .label = "format",
                       .columns = {"GB/s", "Gvalues/s"},
                       .rows = {}};
  std::vector<float> out(kTileRows * kChunk);
  for (const WeightFormat format : AllWeightFormats()) {
    const Matrix matrix(format, kRows);
    const double seconds = MedianSeconds(effort, kThreadClock, [&] {
      for (uint64_t p = 0; p < matrix.panels; ++p) {
        for (uint64_t k = 0; k < kCols; k += kChunk) {
          DecodePanelF32(format, matrix.panel(p), kCols, k, kChunk, out.data());
        }
      }
    });
    table.rows.push_back({Traits(format).name,
                          {1e-9 * static_cast<double>(matrix.bytes.size()) / seconds,
                           1e-9 * static_cast<double>(kRows * kCols) / seconds}});
  }
  return table;
}

ReportTable MeasureMatMul(const Effort& effort, double fma_peak) {
  ReportTable table = {.title = fmt::format("f32 product, K {}, 1 core", kCols),
                       .label = "rows",
                       .columns = {"GMAC/s", "% of peak", "with Q4_0 decoding", "% of peak"},
                       .rows = {}};
  const Matrix matrix(WeightFormat::kQ4_0, kRows);
  std::vector<float> panel(kTileRows * kCols), chunk(kTileRows * kChunk);
  DecodePanelF32(matrix.format, matrix.panel(0), kCols, 0, kCols, panel.data());
  for (const uint32_t tokens : kTokens) {
    const std::vector<float> x = RandomRows(tokens);
    std::vector<float> y(tokens * kRows);
    const double alone = MedianSeconds(effort, kThreadClock, [&] {
      for (uint64_t k = 0; k < kCols; k += kChunk) {
        MatMulPanel(x.data() + k, kCols, tokens, panel.data() + kTileRows * k, kChunk, y.data(), kRows, k > 0);
      }
    });
    const double decoding = MedianSeconds(effort, kThreadClock, [&] {
      for (uint64_t p = 0; p < matrix.panels; ++p) {
        for (uint64_t k = 0; k < kCols; k += kChunk) {
          DecodePanelF32(matrix.format, matrix.panel(p), kCols, k, kChunk, chunk.data());
          MatMulPanel(x.data() + k, kCols, tokens, chunk.data(), kChunk, y.data() + p * kTileRows, kRows, k > 0);
        }
      }
    });
    const double macs = 1e-9 * static_cast<double>(tokens * kCols);
    const double a = macs * kTileRows / alone, b = macs * static_cast<double>(kRows) / decoding;
    table.rows.push_back({fmt::format("{}", tokens), {a, 100 * a / fma_peak, b, 100 * b / fma_peak}});
  }
  return table;
}

ReportTable MeasureMatMulQ8(const Effort& effort, double int8_peak) {
  ReportTable table = {
      .title = fmt::format("int8 product, K {}, 1 core: GMAC/s, % of peak, and % by way of getting at weights", kCols),
      .label = "rows",
      .columns = {},
      .rows = {}};
  std::vector<Matrix> matrices;
  for (const WeightFormat format :
       {WeightFormat::kQ4_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K, WeightFormat::kQ8_0}) {
    matrices.emplace_back(format, kRows);
    for (const char* column : {Traits(format).name, "%", "stored", "prepared"}) table.columns.push_back(column);
  }
  for (const uint32_t tokens : kTokensQ8) {
    const Quantized x(tokens);
    std::vector<float> y(tokens * kRows);
    ReportTable::Row row = {fmt::format("{}", tokens), {}};
    for (const Matrix& matrix : matrices) {
      const auto speed = [&](Q8Path path) {
        const double seconds = MedianSeconds(effort, kThreadClock, [&] {
          for (uint64_t p = 0; p < matrix.panels; ++p) {
            const std::span next(matrix.panel(p + 1), p + 1 < matrix.panels ? matrix.layout.bytes : 0);
            float* const out = y.data() + p * kTileRows;
            MatMulPanelQ8(matrix.format, matrix.panel(p), x.view, 0, tokens, out, kRows, next, path);
          }
        });
        return 1e-9 * static_cast<double>(tokens * kCols * kRows) / seconds;
      };
      const double chosen = speed(Q8Path::kFastest);
      row.values.push_back(chosen);
      row.values.push_back(100 * chosen / int8_peak);
      for (const Q8Path path : {Q8Path::kStored, Q8Path::kPrepared})
        row.values.push_back(100 * speed(path) / int8_peak);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportTable MeasureQuantization(const Effort& effort) {
  constexpr uint32_t kTokenCount = 64;
  const std::vector<float> x = RandomRows(kTokenCount);
  const Quantized q(kTokenCount);
  const double seconds = MedianSeconds(effort, kThreadClock, [&] {
    for (uint32_t row = 0; row < kTokenCount; ++row) QuantizeRow(x.data() + row * kCols, row, q.view);
  });
  return {.title = "Activations to int8, 1 core",
          .label = "",
          .columns = {"Gvalues/s"},
          .rows = {{"quantise", {1e-9 * static_cast<double>(x.size()) / seconds}}}};
}

}  // namespace estream
