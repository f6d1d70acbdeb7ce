// SPDX-License-Identifier: Apache-2.0
// Reading the stored arrays.
#include "tests/oracle.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/macros.h"

namespace estream::testing {
namespace {

std::string OracleFolder() {
  const char* other = std::getenv("ES_ORACLE_DIR");
  return other != nullptr ? other : std::string(ES_SOURCE_DIR) + "/tests/data";
}

}  // namespace

std::vector<std::string> OracleModels() {
  std::vector<std::string> models;
  for (const auto& file : std::filesystem::directory_iterator(OracleFolder() + "/expected")) {
    if (file.path().extension() == ".bin") models.push_back(file.path().stem().string());
  }
  std::sort(models.begin(), models.end());
  return models;
}

std::vector<int32_t> OraclePrompt::tokens() const {
  const auto& v = arrays.at("tokens").ints;
  return {v.begin(), v.end()};
}

std::vector<uint32_t> OraclePrompt::rows() const {
  const auto& v = arrays.at("rows").ints;
  return {v.begin(), v.end()};
}

std::map<std::string, OraclePrompt> LoadOracle(const std::string& model) {
  const std::string base = OracleFolder() + "/expected/" + model;
  std::ifstream bin(base + ".bin", std::ios::binary);
  ES_CHECK(bin.good());
  const std::vector<char> bytes((std::istreambuf_iterator<char>(bin)), std::istreambuf_iterator<char>());
  std::ifstream tsv(base + ".tsv");
  ES_CHECK(tsv.good());

  std::map<std::string, OraclePrompt> prompts;
  std::string line;
  while (std::getline(tsv, line)) {
    std::istringstream fields(line);
    std::string prompt, array, type, shape;
    uint64_t offset = 0, size = 0;
    fields >> prompt >> array >> type >> shape >> offset >> size;
    ES_CHECK(!fields.fail() && offset + size <= bytes.size());
    OracleArray& a = prompts[prompt].arrays[array];
    std::istringstream dims(shape);
    for (std::string d; std::getline(dims, d, 'x');) a.shape.push_back(std::stoull(d));
    const char* data = bytes.data() + offset;
    if (type == "f32") {
      a.f32.resize(size / sizeof(float));
      std::memcpy(a.f32.data(), data, size);
    } else if (type == "i32") {
      for (uint64_t i = 0; i < size; i += sizeof(int32_t)) {
        int32_t v;
        std::memcpy(&v, data + i, sizeof(v));
        a.ints.push_back(v);
      }
    } else {
      ES_CHECK(type == "u8");
      for (uint64_t i = 0; i < size; ++i) a.ints.push_back(static_cast<uint8_t>(data[i]));
    }
  }
  return prompts;
}

std::string OracleModelPath(const std::string& model) { return OracleFolder() + "/models/" + model + ".gguf"; }

}  // namespace estream::testing
