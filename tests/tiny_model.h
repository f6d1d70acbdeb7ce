// SPDX-License-Identifier: Apache-2.0
// A small OLMoE model of any weight format, built in memory: 2 layers, 3 experts, 40 tokens.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "format/weight_format.h"
#include "tests/random_blocks.h"

namespace estream {

struct TinyModel {
  WeightFormat format = WeightFormat::kQ4_0;
  uint32_t hidden = 256;
  uint32_t ffn = 256;
  uint32_t layers = 2;
  uint32_t experts = 3;
  uint32_t vocabulary = 40;  // no whole number of panels
  uint32_t seed = 1;
};

// The bytes of the file.
inline std::string TinyModelBytes(const TinyModel& m) {
  GgufWriter writer;
  writer.SetString("general.architecture", "olmoe");
  writer.SetU32("olmoe.block_count", m.layers);
  writer.SetU32("olmoe.embedding_length", m.hidden);
  writer.SetU32("olmoe.context_length", 64);
  writer.SetU32("olmoe.feed_forward_length", m.ffn);
  writer.SetU32("olmoe.attention.head_count", 4);
  writer.SetU32("olmoe.attention.head_count_kv", 2);
  writer.SetU32("olmoe.expert_count", m.experts);
  writer.SetU32("olmoe.expert_used_count", 2);
  writer.SetF32("olmoe.attention.layer_norm_rms_epsilon", 1e-5f);
  std::vector<std::string> tokens;
  for (uint32_t t = 0; t < m.vocabulary; ++t) tokens.push_back("t" + std::to_string(t));
  writer.SetStrings("tokenizer.ggml.tokens", tokens);

  const auto matrix_type = static_cast<uint32_t>(m.format);
  const auto matrix = [&](const std::string& name, std::vector<uint64_t> dims) {
    writer.AddTensor(name, dims, matrix_type);
  };
  const auto floats = [&](const std::string& name, std::vector<uint64_t> dims) { writer.AddTensor(name, dims, 0); };
  matrix("token_embd.weight", {m.hidden, m.vocabulary});
  for (uint32_t l = 0; l < m.layers; ++l) {
    const std::string blk = "blk." + std::to_string(l) + ".";
    floats(blk + "attn_norm.weight", {m.hidden});
    floats(blk + "attn_q_norm.weight", {m.hidden});
    floats(blk + "attn_k_norm.weight", {m.hidden / 2});
    matrix(blk + "attn_q.weight", {m.hidden, m.hidden});
    matrix(blk + "attn_k.weight", {m.hidden, m.hidden / 2});
    matrix(blk + "attn_v.weight", {m.hidden, m.hidden / 2});
    matrix(blk + "attn_output.weight", {m.hidden, m.hidden});
    floats(blk + "ffn_norm.weight", {m.hidden});
    floats(blk + "ffn_gate_inp.weight", {m.hidden, m.experts});
    matrix(blk + "ffn_gate_exps.weight", {m.hidden, m.ffn, m.experts});
    matrix(blk + "ffn_up_exps.weight", {m.hidden, m.ffn, m.experts});
    matrix(blk + "ffn_down_exps.weight", {m.ffn, m.hidden, m.experts});
  }
  floats("output_norm.weight", {m.hidden});
  matrix("output.weight", {m.hidden, m.vocabulary});

  std::mt19937 rng(m.seed);
  const std::vector<std::byte> header = writer.Header();
  std::string file(reinterpret_cast<const char*>(header.data()), header.size());
  for (const GgufTensor& tensor : writer.tensors()) {
    const std::vector<std::byte> rows =
        RandomBlocks(static_cast<WeightFormat>(tensor.gguf_type), tensor.rows(), tensor.cols(), rng);
    file.append(reinterpret_cast<const char*>(rows.data()), rows.size());
    file.append(writer.Padding(rows.size()), '\0');
  }
  return file;
}

}  // namespace estream
