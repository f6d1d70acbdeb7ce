// SPDX-License-Identifier: Apache-2.0
// Edit distance by rows, and how far is too far.
#include "tools/nearest.h"

#include <algorithm>
#include <numeric>

namespace estream {

size_t EditDistance(std::string_view a, std::string_view b) {
  // rows[i % 3][j] = distance of a[0, i) and b[0, j); a swap looks two rows back.
  std::vector<size_t> rows[3];
  for (auto& row : rows) row.resize(b.size() + 1);
  std::iota(rows[0].begin(), rows[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    std::vector<size_t>& row = rows[i % 3];
    const std::vector<size_t>& above = rows[(i + 2) % 3];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], rows[(i + 1) % 3][j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string Nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongestWord = 64;  // the table is quadratic, and nobody mistypes more
  if (word.size() > kLongestWord) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const bool begins = word.size() > 3 && candidate.starts_with(word);
    const size_t distance = begins ? 1 : EditDistance(word, candidate);
    // A change turns "-x" into any other short option: more than half of a word must stand.
    if (distance * 2 >= std::max(word.size(), candidate.size())) continue;
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace estream
