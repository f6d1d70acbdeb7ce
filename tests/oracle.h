// SPDX-License-Identifier: Apache-2.0
// The stored results of small models, computed elsewhere in float64: what a forward pass must reproduce.
//
// tests/data/expected/<model>.tsv lists the arrays of <model>.bin: prompt, array, type, shape, offset, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace estream::testing {

struct OracleArray {
  std::vector<uint64_t> shape;
  std::vector<float> f32;     // filled for f32 arrays
  std::vector<int64_t> ints;  // filled for i32 and u8 arrays
};

struct OraclePrompt {
  std::map<std::string, OracleArray> arrays;

  std::vector<int32_t> tokens() const;
  std::vector<uint32_t> rows() const;
};

// The names of all models that have expected results: in tests/data, or in the folder named by ES_ORACLE_DIR if it is
// set.
std::vector<std::string> OracleModels();

// Prompts of one model by name. Aborts the test program with a message when the files do not parse.
std::map<std::string, OraclePrompt> LoadOracle(const std::string& model);

// The path of a test model.
std::string OracleModelPath(const std::string& model);

}  // namespace estream::testing
