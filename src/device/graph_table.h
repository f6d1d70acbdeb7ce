// SPDX-License-Identifier: Apache-2.0
// The graphs of a device by number; numbers of dropped ones are given out again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/macros.h"

namespace estream {

// A default-constructed Graph is none: what stands at a dropped number.
template <class Graph>
class GraphTable {
 public:
  uint32_t Add(Graph graph) {
    if (dropped_.empty()) {
      graphs_.push_back(std::move(graph));
      return static_cast<uint32_t>(graphs_.size() - 1);
    }
    const uint32_t number = dropped_.back();
    dropped_.pop_back();
    graphs_[number] = std::move(graph);
    return number;
  }

  void Drop(uint32_t number) {
    ES_DCHECK(number < graphs_.size());
    graphs_[number] = Graph();
    dropped_.push_back(number);
  }

  // Null when the number was never given out.
  const Graph* Find(uint32_t number) const { return number < graphs_.size() ? &graphs_[number] : nullptr; }

 private:
  std::vector<Graph> graphs_;
  std::vector<uint32_t> dropped_;
};

}  // namespace estream
