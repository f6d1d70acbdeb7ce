// SPDX-License-Identifier: Apache-2.0
// What a model is, as plain data: sizes, the blocks of every layer, and where each part of each record comes from.
//
// A record is the stored, device-ready bytes of one expert or of one layer's non-expert weights. Its plan is derived
// from metadata and the tensor table alone, so a model file and a pack made from it give the same plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/block_graph.h"
#include "graph/expert_graph.h"

namespace estream {

// `rows` consecutive rows of a source tensor, counted over all its slower dimensions flattened.
struct SourceRows {
  uint32_t tensor = 0;  // index into the tensor table
  uint64_t first = 0;
  uint64_t rows = 0;
};

struct MatrixPart {
  MatrixSpec spec;
  SourceRows source;
};

// Values are dequantised to f32; `source` may be of any weight format.
struct VectorPart {
  VectorSpec spec;
  SourceRows source;
  // Whether it is E runs of spec.count / E values, one an expert (router rows, router bias): these are stored in pack
  // order, so that routing yields positions in pack order. A run is whole source rows, or the source is one row.
  bool by_expert = false;
};

// The contents of one record: parts at 128-byte aligned offsets, padded to whole pages.
struct RecordPlan {
  std::string name;  // "blk.3", "blk.3.expert.17", "output"
  uint64_t bytes = 0;
  std::vector<MatrixPart> matrices;
  std::vector<VectorPart> vectors;
};

// Where the experts of one layer come from: each projection is one tensor for all experts or one for each.
struct ExpertSource {
  struct Projection {
    std::vector<uint32_t> tensors;  // one, or one an expert
    uint64_t rows_per_expert = 0;   // rows from one expert to the next inside a shared tensor
    uint64_t first = 0;             // first row of the projection inside its expert (merged gate and up)
  };
  Projection gate, up, down;
};

// A layer is a mixer, then either a dense feed-forward block or routed experts, perhaps with shared ones beside them.
// The parts of all specs lie in `block`.
struct LayerPlan {
  RecordPlan block;  // all non-expert weights of the layer
  BlockSpec mixer;

  bool sparse = true;
  NormSpec ffn_norm;  // dense layers: the input of `ffn`
  FfnSpec ffn;        // dense layers: the block; sparse ones: the shared experts, when it has a width

  RouterSpec router;  // sparse layers only, as is all that follows
  uint32_t expert_class = 0;
  ExpertSource experts;
  std::vector<uint32_t> expert_order;  // π_l: the source index of the expert at each position; empty: as in the source
};

struct ModelPlan {
  std::string architecture;
  uint32_t hidden = 0;
  uint32_t vocabulary = 0;
  uint32_t context = 0;
  uint32_t experts = 0;  // E, the same in all sparse layers
  uint32_t top_k = 0;
  std::vector<LayerPlan> layers;
  std::vector<uint32_t> sparse_layers;  // indices of layers with experts, ascending
  std::vector<ExpertSpec> expert_classes;
  uint64_t expert_stride = 0;  // W_e: the largest record of any class

  EmbeddingSpec embedding;
  SourceRows embedding_rows;  // [vocabulary]
  NormSpec final_norm;
  RecordPlan final_record;  // holds final_norm
  LinearSpec head;
  RecordPlan head_record;
};

// The record of the expert at `position` of the layer's pack order. Its name has the expert's index in the source.
RecordPlan ExpertRecord(const ModelPlan& plan, uint32_t layer, uint32_t position);

}  // namespace estream
