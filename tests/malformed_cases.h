// SPDX-License-Identifier: Apache-2.0
// The damaged, odd and unusual files of tests/data/malformed, built from the sound models they differ from.
//
//   for (const MalformedCase& c : MalformedCases()) { const std::string path = MakeMalformed(c, dir); ... }
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/test_files.h"

namespace estream {

struct MalformedCase {
  std::string name;
  std::string expectation;  // "accept": must load and equal its base; "reject": an error; "either": no crash
  std::string base;         // model in tests/data/models, without ".gguf"
  std::string what;         // what is wrong
};

inline std::vector<MalformedCase> MalformedCases() {
  std::vector<MalformedCase> cases;
  for (const std::string& line : SplitText(ReadBinary(TestData("malformed/cases.tsv")), '\n')) {
    const std::vector<std::string> field = SplitText(line, '\t');
    EXPECT_EQ(field.size(), 4u) << line;
    cases.push_back({field[0], field[1], field[2], field[3]});
  }
  return cases;
}

// "0aff" -> two bytes.
inline std::string BytesFromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// The bytes that a recipe in `folder`/`base_name`.patches makes of a model in tests/data/models. A recipe is the lines
// after "case NAME": copy OFFSET LENGTH (of the base), data HEX, fill COUNT HEX.
inline std::string BytesFromRecipe(const std::string& folder, const std::string& base_name, const std::string& name) {
  const std::string base = ReadBinary(TestData("models/" + base_name + ".gguf"));
  std::string bytes;
  bool inside = false, found = false;
  for (const std::string& line : SplitText(ReadBinary(TestData(folder + "/" + base_name + ".patches")), '\n')) {
    const std::vector<std::string> word = SplitText(line, ' ');
    if (word[0] == "case") {
      inside = word[1] == name;
      found |= inside;
    } else if (!inside) {
      continue;
    } else if (word[0] == "copy") {
      bytes += base.substr(std::stoul(word[1]), std::stoul(word[2]));
    } else if (word[0] == "data") {
      bytes += BytesFromHex(word[1]);
    } else if (word[0] == "fill") {
      for (unsigned long i = std::stoul(word[1]); i > 0; --i) bytes += BytesFromHex(word[2]);
    } else {
      ADD_FAILURE() << "unknown line in a recipe: " << line;
    }
  }
  EXPECT_TRUE(found) << "no recipe for " << name;
  return bytes;
}

inline std::string MalformedBytes(const MalformedCase& wanted) {
  return BytesFromRecipe("malformed", wanted.base, wanted.name);
}

// Writes a case to `folder`/NAME.gguf and returns that path.
inline std::string MakeMalformed(const MalformedCase& wanted, const TempDir& folder) {
  std::string path = folder.File(wanted.name + ".gguf");
  WriteBinary(path, MalformedBytes(wanted));
  return path;
}

}  // namespace estream
