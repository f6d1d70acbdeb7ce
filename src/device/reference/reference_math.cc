// SPDX-License-Identifier: Apache-2.0
// Formulas as they stand in the model definitions; nothing here is tuned.
#include "device/reference/reference_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/checked_math.h"
#include "format/tile.h"
#include "graph/rope.h"

namespace estream::reference {

Matrix DecodeMatrix(const MatrixSpec& spec, const std::byte* record) {
  Matrix m(spec.rows, spec.cols);
  const uint64_t panel_bytes = MakePanelLayout(spec.format, spec.cols).bytes;
  std::vector<float> panel(size_t{spec.cols} * kTileRows);
  for (uint32_t first = 0; first < spec.rows; first += kTileRows) {
    DecodePanel(spec.format, record + spec.offset + first / kTileRows * panel_bytes, spec.cols, 0, spec.cols,
                panel.data());
    const uint32_t rows = std::min(kTileRows, spec.rows - first);
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t k = 0; k < spec.cols; ++k) m.row(first + r)[k] = panel[size_t{k} * kTileRows + r];
    }
  }
  return m;
}

std::vector<double> DecodeVector(const VectorSpec& spec, const std::byte* record) {
  std::vector<float> values(spec.count);
  if (spec.count > 0) std::memcpy(values.data(), record + spec.offset, values.size() * sizeof(float));
  return {values.begin(), values.end()};
}

Matrix FromFloats(const float* values, uint32_t rows, uint32_t cols) {
  Matrix m(rows, cols);
  std::copy(values, values + m.values.size(), m.values.begin());
  return m;
}

Matrix Product(const Matrix& x, const Matrix& w) {
  Matrix y(x.rows, w.rows);
  for (uint32_t r = 0; r < x.rows; ++r) {
    for (uint32_t n = 0; n < w.rows; ++n) {
      y.row(r)[n] = std::inner_product(x.row(r), x.row(r) + x.cols, w.row(n), 0.0);
    }
  }
  return y;
}

void RmsNorm(Matrix& x, std::span<const double> weight, double epsilon) {
  const size_t width = weight.size();
  for (size_t first = 0; first < x.values.size(); first += width) {
    double* v = x.values.data() + first;
    const double scale = 1 / std::sqrt(std::inner_product(v, v + width, v, 0.0) / static_cast<double>(width) + epsilon);
    for (size_t i = 0; i < width; ++i) v[i] *= scale * weight[i];
  }
}

Matrix GatedFfn(const Matrix& x, const MatrixSpec& gate, const MatrixSpec& up, const MatrixSpec& down,
                const std::byte* record) {
  Matrix h = Product(x, DecodeMatrix(gate, record));
  const Matrix u = Product(x, DecodeMatrix(up, record));
  for (size_t i = 0; i < h.values.size(); ++i) h.values[i] *= u.values[i] / (1 + std::exp(-h.values[i]));
  return Product(h, DecodeMatrix(down, record));
}

void Rotate(const RopeSpec& rope, uint32_t position, double* row, uint32_t heads, uint32_t head_dim) {
  const uint32_t half = rope.dims / 2;
  const bool halves = rope.style == RopeStyle::kHalves;
  for (uint32_t head = 0; head < heads; ++head) {
    double* v = row + size_t{head} * head_dim;
    for (uint32_t i = 0; i < half; ++i) {
      const double angle = position * RopeFrequency(rope, i);
      double& a = v[halves ? i : 2 * i];
      double& b = v[halves ? i + half : 2 * i + 1];
      const double rotated = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = rotated;
    }
  }
}

void Attend(const double* q, const Matrix& k, HeadColumns key, const Matrix& v, HeadColumns value, uint32_t position,
            double scale, double* out) {
  std::vector<double> p(position + 1);
  for (uint32_t t = 0; t <= position; ++t) {
    p[t] = scale * std::inner_product(q, q + key.width, k.row(t) + key.first, 0.0);
  }
  const double max = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& s : p) sum += s = std::exp(s - max);
  std::fill(out, out + value.width, 0.0);
  for (uint32_t t = 0; t <= position; ++t) {
    for (uint32_t i = 0; i < value.width; ++i) out[i] += p[t] / sum * v.row(t)[value.first + i];
  }
}

bool Choose(const RouterSpec& spec, std::span<const double> logits, std::span<const double> bias, uint32_t* experts,
            float* weights) {
  if (!std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); })) return false;
  std::vector<double> p(logits.begin(), logits.end());
  if (spec.gating == Gating::kSigmoid) {
    for (double& x : p) x = 1 / (1 + std::exp(-x));
  } else {
    const double max = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - max);
    for (double& x : p) x /= sum;
  }
  const auto score = [&](uint32_t e) { return p[e] + (bias.empty() ? 0 : bias[e]); };
  std::vector<uint32_t> order(spec.experts);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return score(a) > score(b); });
  double chosen = 0;
  for (uint32_t i = 0; i < spec.top_k; ++i) chosen += p[order[i]];
  for (uint32_t i = 0; i < spec.top_k; ++i) {
    experts[i] = order[i];
    weights[i] = static_cast<float>(p[order[i]] / (spec.renormalize != 0 ? chosen : 1) * spec.scale);
  }
  return true;
}

}  // namespace estream::reference
