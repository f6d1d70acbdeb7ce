// SPDX-License-Identifier: Apache-2.0
// The layers of this repository, from its #include lines and its build files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/layer_rules.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<SourceText> AllSources() {
  const std::string root = std::string(ES_SOURCE_DIR) + "/";
  std::vector<SourceText> files;
  for (const char* folder : {"include", "src"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root + folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc") continue;
      const std::string path = entry.path();
      files.push_back({path.substr(root.size()), ReadBinary(path)});
    }
  }
  return files;
}

TEST(Layers, IncludesGoDownwardsOnly) {
  const std::vector<SourceText> files = AllSources();
  EXPECT_GT(files.size(), 50u);
  EXPECT_THAT(LayerViolations(files), IsEmpty());
}

// es_layer(NAME DEPS es_a es_b Some::Package) -> NAME: {a, b}; tools has its own file.
TEST(Layers, TheBuildLinksTheSamePicture) {
  LayerTable built;
  for (const std::string& line : SplitText(ReadBinary(std::string(ES_SOURCE_DIR) + "/src/CMakeLists.txt"), '\n')) {
    if (!line.starts_with("es_layer(")) continue;
    std::string text = line.substr(9, line.find(')') - 9);
    text = text.substr(0, text.find("TEST_DEPS"));
    std::istringstream words(text);
    std::string layer, word;
    words >> layer;
    built[layer] = {};
    while (words >> word) {
      if (word.starts_with("es_")) built[layer].insert(word.substr(3));
    }
  }
  LayerTable expected = DirectDependencies();
  expected.erase("tools");
  EXPECT_EQ(built, expected);
}

TEST(Layers, ThePictureHasNoCycle) {
  // Taking away layers whose dependencies are all gone must empty the table.
  LayerTable left = DirectDependencies();
  for (size_t before = left.size() + 1; left.size() < before;) {
    before = left.size();
    std::erase_if(left, [&](const auto& layer) {
      return std::none_of(layer.second.begin(), layer.second.end(), [&](const auto& d) { return left.count(d) != 0; });
    });
  }
  EXPECT_TRUE(left.empty());
}

TEST(LayerRules, CatchWhatTheyAreFor) {
  const struct {
    SourceText file;
    std::string violation;  // empty: none
  } kCases[] = {
      {{"src/format/a.cc", "#include \"base/macros.h\"\n#include <vector>\n"}, ""},
      {{"src/task/a.cc", "#include \"base/macros.h\"\n"}, ""},
      {{"src/format/a.cc", "#include \"format/b.h\"\n"}, ""},
      {{"src/base/a.h", "// x\n\n#include \"format/gguf.h\"\n"},
       "src/base/a.h:3: base may not include format (format/gguf.h)"},
      {{"src/base/a.h", "  #  include \"format/gguf.h\"\n"},
       "src/base/a.h:1: base may not include format (format/gguf.h)"},
      {{"src/base/a.h", "#include\"format/gguf.h\"\n"}, "src/base/a.h:1: base may not include format (format/gguf.h)"},
      {{"src/graph/a.h", "#include \"kernels/b.h\"\n"}, "src/graph/a.h:1: graph may not include kernels (kernels/b.h)"},
      {{"src/residency/a.h", "#include \"kernels/b.h\"\n"},
       "src/residency/a.h:1: residency may not include kernels (kernels/b.h)"},
      {{"src/device/cpu/a.h", "#include \"kernels/b.h\"\n"}, ""},
      {{"src/device/cpu/a.h", "#include \"residency/b.h\"\n"},
       "src/device/cpu/a.h:1: device may not include residency (residency/b.h)"},
      {{"src/pipeline/a.h", "#include \"family/b.h\"\n"},
       "src/pipeline/a.h:1: pipeline may not include family (family/b.h)"},
      {{"src/text/a.h", "#include \"graph/b.h\"\n"}, "src/text/a.h:1: text may not include graph (graph/b.h)"},
      {{"src/format/a.h", "#include \"estream/engine.h\"\n"},
       "src/format/a.h:1: format may not include engine (estream/engine.h)"},
      {{"include/estream/engine.h", "#include \"estream/status.h\"\n#include \"estream/model.h\"\n"}, ""},
      {{"include/estream/status.h", "#include \"estream/engine.h\"\n"},
       "include/estream/status.h:1: base may not include engine (estream/engine.h)"},
      {{"include/estream/nobody.h", ""}, "include/estream/nobody.h: is in no layer"},
      {{"src/format/a.h", "#include \"gguf.h\"\n"}, "src/format/a.h:1: includes gguf.h, which is in no layer"},
      {{"src/attic/a.h", ""}, "src/attic/a.h: is in no layer"},
      {{"src/format/a.cc", "#include \"tests/random.h\"\n"}, "src/format/a.cc:1: includes test code (tests/random.h)"},
      {{"src/format/a_test.cc", "#include \"tests/random.h\"\n"}, ""},
      {{"src/task/a.cc", "#include \"task/testing/b.h\"\n"}, "src/task/a.cc:1: includes test code (task/testing/b.h)"},
      {{"src/task/a_test.cc", "#include \"task/testing/b.h\"\n"}, ""},
      {{"src/text/test_words.h", "#include \"tests/random.h\"\n"}, ""},
      {{"src/kernels/a.cc", "#include <hwy/highway.h>\n#include \"hwy/foreach_target.h\"\n"}, ""},
      {{"src/device/cpu/a.cc", "#include \"hwy/highway.h\"\n"},
       "src/device/cpu/a.cc:1: may not include \"hwy/highway.h\""},
      {{"src/format/a.cc", "#include <immintrin.h>\n"}, "src/format/a.cc:1: may not include <immintrin.h>"},
      {{"src/text/a.cc", "#include <regex>\n"}, "src/text/a.cc:1: may not include <regex>"},
      {{"src/task/a.cc", "#include <iostream>\n"}, "src/task/a.cc:1: may not include <iostream>"},
      {{"src/tools/a.cc", "#include <iostream>\n"}, ""},
      {{"src/device/a.cc", "#include <fcntl.h>\n"}, "src/device/a.cc:1: may not include <fcntl.h>"},
      {{"src/format/a.cc", "// #include \"engine/x.h\"\n"}, ""},
  };
  for (const auto& c : kCases) {
    const std::vector<std::string> found = LayerViolations({c.file});
    if (c.violation.empty()) {
      EXPECT_THAT(found, IsEmpty()) << c.file.text;
    } else {
      EXPECT_THAT(found, ElementsAre(c.violation));
    }
  }
}

TEST(Style, EveryFileBeginsWithItsLicenceAndOneSentence) {
  for (const SourceText& file : AllSources()) {
    const std::vector<std::string> lines = SplitText(file.text, '\n');
    ASSERT_GE(lines.size(), 2u) << file.path;
    EXPECT_EQ(lines[0], "// SPDX-License-Identifier: Apache-2.0") << file.path;
    EXPECT_TRUE(lines[1].starts_with("// ")) << file.path;
  }
}

TEST(Style, FilesHoldOneIdea) {
  for (const SourceText& file : AllSources()) {
    const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
    EXPECT_LE(lines, file.path.ends_with("_test.cc") ? 500 : 420) << file.path;
  }
}

}  // namespace
}  // namespace estream
