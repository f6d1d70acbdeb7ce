// SPDX-License-Identifier: Apache-2.0
// What users see when something is wrong: one sentence, and an exit code that says whose mistake it was.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "tests/cli_program.h"
#include "tests/gguf_builder.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Arguments = std::vector<std::string>;

constexpr int kFailure = 1;
constexpr int kUsage = 2;

// One line, "estream: " and a sentence, shorter than 300 bytes, on standard error alone.
void ExpectOneSentence(const ProgramResult& result, int exit_code, const std::string& part) {
  EXPECT_EQ(result.exit_code, exit_code);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("estream: "));
  EXPECT_THAT(result.err, EndsWith("\n"));
  EXPECT_EQ(SplitText(result.err, '\n').size(), 1u) << result.err;
  EXPECT_LT(result.err.size(), 300u);
  EXPECT_THAT(result.err, HasSubstr(part));
}

struct ErrorCase {
  Arguments arguments;
  int exit_code;
  std::string part;  // of the sentence
};

void ExpectAll(const std::vector<ErrorCase>& cases) {
  for (const ErrorCase& c : cases) {
    std::string command;
    for (const std::string& argument : c.arguments) command.append(" ").append(argument, 0, 80);
    SCOPED_TRACE(command);
    ExpectOneSentence(RunEstream(c.arguments), c.exit_code, c.part);
  }
}

Arguments RunArguments(Arguments more) {
  more.insert(more.begin(), {"run", ModelPath()});
  return more;
}
Arguments ClassifyArguments(Arguments more) {
  more.insert(more.begin(), {"classify", ModelPath()});
  return more;
}

TEST(CliErrors, WrongVerbsAndOptionsNameTheNearestOne) {
  ExpectAll({
      {{}, kUsage, "no verb given"},
      {{"clasify"}, kUsage, "unknown verb \"clasify\"; did you mean classify?"},
      {{"rnu", "-p", "x"}, kUsage, "did you mean run?"},
      {{"frobnicate"}, kUsage, "unknown verb \"frobnicate\"; see estream --help"},
      {{""}, kUsage, "unknown verb"},
      {{"--versoin"}, kUsage, "unknown option \"--versoin\"; did you mean --version?"},
      {ClassifyArguments({"--lables", "a,b", "x"}), kUsage, "unknown option \"--lables\"; did you mean --labels?"},
      {ClassifyArguments({"--lables=a,b", "x"}), kUsage, "unknown option \"--lables\"; did you mean --labels?"},
      {RunArguments({"-p", "x", "--jsn"}), kUsage, "did you mean --json?"},
      {RunArguments({"-p", "x", "-z"}), kUsage, "unknown option \"-z\""},
      {RunArguments({"-p", "x", "--" + std::string(5000, 'x')}), kUsage, "unknown option"},
      {RunArguments({"-p", "x", "--\x1b[2J"}), kUsage, "unknown option"},
  });
}

TEST(CliErrors, FlagsThatMakeNoSenseAreUsageErrors) {
  ExpectAll({
      {{"run"}, kUsage, "no model given"},
      {{"run", "-p", "x"}, kUsage, "no model given"},
      {RunArguments({}), kUsage, "a prompt is needed"},
      {RunArguments({"-p", "x", "-f", "y"}), kUsage, "exactly one of"},
      {RunArguments({"-p", ""}), kUsage, "-p: the prompt is empty"},
      {RunArguments({"-p"}), kUsage, "--prompt needs a value"},
      {RunArguments({"-p", "x", "-p", "y"}), kUsage, "--prompt is given more than once"},
      {RunArguments({"some prompt"}), kUsage, "unexpected argument \"some prompt\""},
      {RunArguments({"-p", "x", "--top", "0"}), kUsage, "--top: expected a whole number from 1 to 1000, found \"0\""},
      {RunArguments({"-p", "x", "--top", "many"}), kUsage, "found \"many\""},
      {RunArguments({"-p", "x", "-t", "-1"}), kUsage, "--threads: expected a whole number"},
      {RunArguments({"-p", "x", "-t", "1.5"}), kUsage, "--threads: expected a whole number"},
      {RunArguments({"-p", "x", "-c", "99999999999"}), kUsage, "--max-tokens: expected a whole number"},
      {RunArguments({"-p", "x", "-c", "1025"}), kUsage, "1024"},
      {RunArguments({"--tokens", "1,two"}), kUsage, "--tokens: expected ids like 5,17,9"},
      {RunArguments({"--tokens", ""}), kUsage, "--tokens: expected ids"},
      {RunArguments({"--tokens", "0,2048"}), kUsage, "--tokens: 2048 is outside the vocabulary of 2048 tokens"},
      {RunArguments({"-p", "x", "--all-rows"}), kUsage, "--all-rows needs --logits"},
      {RunArguments({"-p", "x", "--activations", "q8", "--device", "reference"}), kUsage, "q8 is for --device cpu"},
      {RunArguments({"-p", "x", "--activations", "f64"}), kUsage, "expected q8 or f32, found \"f64\""},
      {RunArguments({"-p", "x", "--read-rate", "fast"}), kUsage, "--read-rate: expected a size like 400M"},
      {RunArguments({"-p", "x", "--early-order", "hot"}), kUsage, "expected pack or previous, found \"hot\""},
      {RunArguments({"-p", "x", "--device", "toaster"}), kUsage, "expected cpu or reference, found \"toaster\""},
  });
}

TEST(CliErrors, ClassifyNeedsLabelsATemplateAndTexts) {
  ExpectAll({
      {{"classify"}, kUsage, "no model given"},
      {ClassifyArguments({"x"}), kUsage, "no labels given"},
      {ClassifyArguments({"--labels", "", "x"}), kUsage, "no labels given"},
      {ClassifyArguments({"--labels", "yes", "x"}), kUsage, "--labels: two or more are needed, found 1"},
      {ClassifyArguments({"--labels", "yes,no,yes", "x"}), kUsage, "--labels: \"yes\" occurs twice"},
      {ClassifyArguments({"--labels", "yes,,no", "x"}), kUsage, "--labels: a label is empty"},
      {ClassifyArguments({"--labels", "a,b", "--names", "A", "x"}), kUsage,
       "--names: expected 2, one for each label, found 1"},
      {ClassifyArguments({"--labels", "a,b"}), kUsage, "no text given"},
      {ClassifyArguments({"--labels", "a,b", "-f", "texts", "x"}), kUsage, "texts are given twice"},
      {ClassifyArguments({"--labels", "a,b", "--template", "no-such", "x"}), kUsage,
       "is neither a file nor a text with {text}"},
      {ClassifyArguments({"--labels", "a,b", "--template", "{text} {text}", "x"}), kUsage, "more than one {text}"},
      {ClassifyArguments({"--labels", "a,b", "--template", ModelDir() + "/config.json", "x"}), kUsage,
       "--template: the template has no {text}"},
      {ClassifyArguments({"--labels", "a,b", "--activations", "f16", "x"}), kUsage, "expected q8 or f32"},
  });
}

TEST(CliErrors, InputThatCannotBeReadIsAFailure) {
  const TempDir dir;
  WriteBinary(dir.File("empty.txt"), "");
  WriteBinary(dir.File("newline.txt"), "\n");
  ExpectAll({
      {{"run", dir.File("none.gguf"), "-p", "x"}, kFailure, "none.gguf"},
      {{"run", dir.path(), "-p", "x"}, kFailure, "directory"},
      {{"run", "/dev/null", "-p", "x"}, kFailure, "/dev/null"},
      {RunArguments({"-f", dir.File("none.txt")}), kFailure, "none.txt"},
      {RunArguments({"-f", dir.path()}), kFailure, "directory"},
      {RunArguments({"-f", dir.File("empty.txt")}), kFailure, "empty.txt holds no prompt"},
      {RunArguments({"-f", dir.File("newline.txt")}), kFailure, "newline.txt holds no prompt"},
      {RunArguments({"-f", "-"}), kFailure, "holds no prompt"},
      {RunArguments({"-p", "x", "--logits", dir.File("none/out.npy")}), kFailure, "out.npy"},
      {ClassifyArguments({"--labels", "a,b", "-f", dir.File("empty.txt")}), kFailure, "empty.txt holds no text"},
      {ClassifyArguments({"--labels", "a,b", "-f", dir.File("none.txt")}), kFailure, "none.txt"},
      {ClassifyArguments({"--labels", "a,b", "--template", dir.path(), "x"}), kFailure, "directory"},
  });
  if (geteuid() != 0) {  // root reads everything
    WriteBinary(dir.File("secret.gguf"), "GGUF");
    std::filesystem::permissions(dir.File("secret.gguf"), std::filesystem::perms::none);
    ExpectAll({{{"run", dir.File("secret.gguf"), "-p", "x"}, kFailure, "secret.gguf"}});
  }
}

TEST(CliErrors, ModelsThatAreDamagedOrNotMixturesAreRefused) {
  const TempDir dir;
  const std::string model = ReadBinary(ModelPath());
  WriteBinary(dir.File("half.gguf"), model.substr(0, model.size() / 2));
  WriteBinary(dir.File("head.gguf"), model.substr(0, 100));
  WriteBinary(dir.File("text.gguf"), "this is no model\n");
  WriteBinary(dir.File("dense.gguf"),
              GgufBuilder().String("general.architecture", "llama").U32("llama.block_count", 2).Build());
  WriteBinary(dir.File("other.gguf"), GgufBuilder().String("general.architecture", "mamba").Build());
  for (const char* name : {"half.gguf", "head.gguf", "text.gguf", "dense.gguf", "other.gguf"}) {
    SCOPED_TRACE(name);
    ExpectOneSentence(RunEstream({"run", dir.File(name), "-p", "x"}), kFailure, name);
    ExpectOneSentence(RunEstream({"classify", dir.File(name), "--labels", "a,b", "x"}), kFailure, name);
  }
}

TEST(CliErrors, InputLongerThanTheContextIsAFailure) {
  std::string words;
  for (int i = 0; i < 1100; ++i) words += " no";
  const TempDir dir;
  WriteBinary(dir.File("lines.txt"), "short\n" + words + "\n");
  ExpectAll({
      {RunArguments({"-p", words}), kFailure, "the prompt has 1101 tokens, but the context of this model is 1024"},
      {RunArguments({"-p", "one two three", "-c", "2"}), kFailure, "-c allows 2"},
      {ClassifyArguments({"--labels", "a,b", words}), kFailure, "text 1 has 1101 tokens"},
      {ClassifyArguments({"--labels", "a,b", "-f", dir.File("lines.txt")}), kFailure, "line 2 has 1101 tokens"},
      {ClassifyArguments({"--labels", "a,b", "-c", "3", "one two three four"}), kFailure, "-c is 3"},
  });
}

TEST(CliErrors, AFailedRunLeavesNoLogitsFile) {
  const TempDir dir;
  ExpectOneSentence(RunEstream(RunArguments({"-p", "one two three", "-c", "2", "--logits", dir.File("out.npy")})),
                    kFailure, "-c");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace estream
