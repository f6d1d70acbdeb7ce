// SPDX-License-Identifier: Apache-2.0
// What a model file or pack is, from its header alone: for reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estream/status.h"
#include "family/model_plan.h"
#include "format/gguf.h"

namespace estream {

// All tensors of one type.
struct TypeTotal {
  std::string type;  // "Q4_0"
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

// Experts that share a graph, and how many records they make.
struct ClassFacts {
  ExpertSpec spec;
  uint64_t records = 0;
};

// What the engine would make of the file.
struct PlanFacts {
  uint32_t layers = 0, sparse_layers = 0;
  uint32_t hidden = 0, experts = 0, top_k = 0, vocabulary = 0, context = 0;
  std::vector<ClassFacts> classes;
  uint64_t expert_stride = 0;  // W_e
  uint64_t block_records = 0;  // one a layer
  uint64_t smallest_block = 0, largest_block = 0, block_bytes = 0;
  uint64_t head_bytes = 0;       // the head's record
  uint64_t embedding_bytes = 0;  // its rows, as stored
};

struct TokenizerFacts {
  std::string model, pre;  // "gpt2", "olmo"
  uint64_t tokens = 0, merges = 0;
  std::optional<uint64_t> bos, eos;
  bool has_chat_template = false;
};

struct ModelFacts {
  std::string path;
  uint32_t version = 0;  // of GGUF
  uint64_t file_bytes = 0;
  uint32_t files = 1;  // of a split set
  bool is_pack = false;
  std::string architecture;                    // of a pack: its source's
  std::string name;                            // general.name
  std::vector<TypeTotal> types;                // largest first; of a pack: of its source
  uint64_t expert_bytes = 0, other_bytes = 0;  // tensors of routed experts, and all others (paper, Table 1)
  std::optional<PlanFacts> plan;
  TokenizerFacts tokenizer;
  Status runs;  // Ok, or why the engine cannot run it
};

// Whether `name` is (part of) a matrix of routed experts: blk.3.ffn_up_exps.weight, or blk.3.ffn_up.17.weight.
bool IsExpertTensor(std::string_view name);

// Reads everything above from `file`. Never fails: what is missing or unknown is left out, and `runs` says why.
// Cost: no weights are read.
ModelFacts CollectFacts(const Gguf& file);

}  // namespace estream
