// SPDX-License-Identifier: Apache-2.0
// The reference device's mathematics: one plain function per formula, all in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/block_graph.h"

namespace estream::reference {

// A matrix of doubles, row-major.
struct Matrix {
  uint32_t rows = 0;
  uint32_t cols = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(uint32_t r, uint32_t c) : rows(r), cols(c), values(size_t{r} * c) {}
  double* row(size_t r) { return values.data() + r * cols; }
  const double* row(size_t r) const { return values.data() + r * cols; }
};

// All values of a tiled matrix. record points at the start of the record.
Matrix DecodeMatrix(const MatrixSpec& spec, const std::byte* record);
std::vector<double> DecodeVector(const VectorSpec& spec, const std::byte* record);

// [rows, cols] floats as doubles.
Matrix FromFloats(const float* values, uint32_t rows, uint32_t cols);

// x Wᵀ: [x.rows, w.rows].
Matrix Product(const Matrix& x, const Matrix& w);

// x / sqrt(mean(x²) + epsilon) ⊙ weight, over spans of weight.size() values: whole rows, or every head of them.
void RmsNorm(Matrix& x, std::span<const double> weight, double epsilon);

// W_down (SiLU(W_gate x) ⊙ W_up x): [x.rows, hidden].                                                          (eq. 1)
Matrix GatedFfn(const Matrix& x, const MatrixSpec& gate, const MatrixSpec& up, const MatrixSpec& down,
                const std::byte* record);

// Rotates the first rope.dims values of each of the heads of width head_dim in a row at `position`.
void Rotate(const RopeSpec& rope, uint32_t position, double* row, uint32_t heads, uint32_t head_dim);

// The columns of one head in a matrix of rows of heads.
struct HeadColumns {
  size_t first = 0;
  uint32_t width = 0;
};

// softmax(scale q kᵀ) v of one query head at `position` over keys 0..position.
//   q    [key.width]
//   out  [value.width]
void Attend(const double* q, const Matrix& k, HeadColumns key, const Matrix& v, HeadColumns value, uint32_t position,
            double scale, double* out);

// Scores one row's logits and writes its best top_k experts and their weights, best first; ties to the lowest index.
// False when a logit is not finite.
bool Choose(const RouterSpec& spec, std::span<const double> logits, std::span<const double> bias, uint32_t* experts,
            float* weights);

}  // namespace estream::reference
