// SPDX-License-Identifier: Apache-2.0
// What users see of `estream inspect`, `estream doctor` and estream-synth.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli_program.h"
#include "tests/gguf_builder.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

const char kModel[] = "models/olmoe-s-stock_q4_0.gguf";

// estream-synth stands beside estream.
ProgramResult RunSynth(const std::string& arguments) {
  return RunShell("\"$(dirname \"$ESTREAM\")\"/estream-synth " + arguments);
}

TEST(CliInspect, ShowsWhatAModelIs) {
  const ProgramResult result = RunEstream({"inspect", TestData(kModel)});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* part :
       {"\narchitecture   olmoe\n", "Q4_0", "3 layers (3 with experts), width 256, 16 experts, top 4, vocabulary 1021",
        "48 records of 28.0 KiB (7 pages): 256 x 64, gate Q4_0, up Q4_0, down Q4_0",
        "gpt2, pre-tokenizer olmo, 1021 tokens", "\nruns           yes\n"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("tokenizer.ggml.tokens")));
}

TEST(CliInspect, ListsMetadataAndTensorsWhenAsked) {
  const ProgramResult result = RunEstream({"inspect", "-m", TestData(kModel), "--metadata", "--tensors"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("olmoe.expert_used_count                      u32            4\n"));
  EXPECT_THAT(result.out, HasSubstr("olmoe.attention.layer_norm_rms_epsilon       f32            1e-05\n"));
  EXPECT_THAT(result.out, HasSubstr("tokenizer.ggml.token_type                    i32[1021]      ["));
  EXPECT_THAT(result.out, HasSubstr(", ...]\n"));
  EXPECT_THAT(result.out, HasSubstr("blk.0.ffn_gate_exps.weight"));
  EXPECT_THAT(result.out, HasSubstr("[256, 64, 16]\n"));
  for (const std::string& line : SplitText(result.out, '\n')) EXPECT_LT(line.size(), 400u);
}

TEST(CliInspect, JsonHoldsTheSame) {
  const ProgramResult result = RunEstream({"inspect", TestData(kModel), "--json", "--metadata", "--tensors"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["architecture"], "olmoe");
  EXPECT_EQ(json["runs"], true);
  EXPECT_EQ(json["reason"], nullptr);
  EXPECT_EQ(json["plan"]["shape_classes"][0]["records"], 48);
  EXPECT_EQ(json["metadata"]["olmoe.expert_count"], 16);
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.tokens"]["count"], 1021);
  uint64_t tensor_bytes = 0;
  for (const Json& tensor : json["tensors"]) tensor_bytes += tensor["bytes"].get<uint64_t>();
  EXPECT_EQ(json["expert_bytes"].get<uint64_t>() + json["non_expert_bytes"].get<uint64_t>(), tensor_bytes);
}

// The dense first layer has no experts, and the other layers' down projections differ in format.
TEST(CliInspect, APackShowsTheModelItWasMadeFrom) {
  TempDir dir;
  const std::string model = dir.File("model.gguf"), pack = dir.File("pack.gguf");
  ASSERT_EQ(RunSynth("--model deepseek-v2-lite --tiny --type q4_k_m " + model).exit_code, 0);
  const ProgramResult packed = RunEstream({"pack", model, "-o", pack});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  Json of_model = Json::parse(RunEstream({"inspect", model, "--json"}).out);
  Json of_pack = Json::parse(RunEstream({"inspect", pack, "--json"}).out);
  EXPECT_EQ(of_pack["pack"], true);
  EXPECT_EQ(of_pack["architecture"], "deepseek2");
  EXPECT_EQ(of_pack["runs"], true);
  EXPECT_EQ(of_pack["plan"]["layers"], 3);
  EXPECT_EQ(of_pack["plan"]["sparse_layers"], 2);
  EXPECT_EQ(of_pack["plan"]["shape_classes"].size(), 2u);
  for (const char* same : {"plan", "types", "expert_bytes", "non_expert_bytes", "tokenizer"}) {
    EXPECT_EQ(of_model[same], of_pack[same]) << same;
  }
}

TEST(CliInspect, WhatDoesNotRunIsListedWithTheReason) {
  GgufBuilder builder;
  builder.String("general.architecture", "mamba\x1b[2J")
      .Bool("flag", true)
      .Array("flags", GgufValueType::kBool, std::vector<uint8_t>{1, 0});
  builder.Array("empty", GgufValueType::kString, std::vector<std::string>{}).F32("real", 0.5f);
  builder.Tensor("x", {256}, 16, std::string(66, '\0'));
  TempDir dir;
  WriteBinary(dir.File("other.gguf"), builder.Build());
  const ProgramResult result = RunEstream({"inspect", dir.File("other.gguf"), "--metadata", "--tensors"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\nruns           no: "));
  EXPECT_THAT(result.out, HasSubstr("IQ2_XXS"));
  EXPECT_THAT(result.out, HasSubstr("[true,false]"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b"))) << "a file must not drive the terminal";
  const Json json = Json::parse(RunEstream({"inspect", dir.File("other.gguf"), "--json", "--metadata"}).out);
  EXPECT_EQ(json["runs"], false);
  EXPECT_EQ(json["plan"], nullptr);
  EXPECT_THAT(json["reason"].get<std::string>(), HasSubstr("mamba"));
}

TEST(CliInspect, MistakesAreOneSentence) {
  const ProgramResult missing = RunEstream({"inspect", "/no/such/model.gguf"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, MatchesRegex("estream: /no/such/model.gguf: [^\n]*\n"));
  EXPECT_EQ(RunEstream({"inspect"}).exit_code, 2);
  EXPECT_EQ(RunEstream({"inspect", TestData(kModel), "more"}).exit_code, 2);
}

TEST(CliDoctor, EveryLineIsOkOrANote) {
  TempDir dir;
  const ProgramResult result = RunEstream({"doctor", "--path", dir.path()});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const std::vector<std::string> lines = SplitText(result.out, '\n');
  EXPECT_EQ(lines.size(), 11u);
  for (const std::string& line : lines) EXPECT_THAT(line, MatchesRegex("(OK  |note)  [a-z_ ]+  .+"));
  for (const char* name : {"processor", "kernels", "memory", "control group", "default budget", "locked memory",
                           "huge pages", "io_uring", "direct reads", "file system", "devices"}) {
    EXPECT_THAT(result.out, HasSubstr(std::string("  ") + name));
  }
}

TEST(CliDoctor, AFolderThatIsNotThereIsANote) {
  const ProgramResult result = RunEstream({"doctor", "--path", "/no/such/folder"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("note  direct reads    not tried: /no/such/folder: No such file or directory\n"));
  EXPECT_EQ(RunEstream({"doctor", "x"}).exit_code, 2);
}

TEST(CliDoctor, JsonHasAnEntryForEachCheck) {
  const ProgramResult result = RunEstream({"doctor", "--json", "--path", TestData(kModel)});
  ASSERT_EQ(result.exit_code, 0);
  const Json json = Json::parse(result.out);
  EXPECT_GE(json["processor"]["usable"], 1);
  EXPECT_GT(json["default_budget"]["bytes"], 0);
  EXPECT_TRUE(json["direct_reads"]["ok"].is_boolean());
}

TEST(CliSynth, APipeGetsTheBytesOfTheFile) {
  TempDir dir;
  const ProgramResult file = RunSynth("--model mixtral-8x7b --tiny --seed 3 " + dir.File("a.gguf"));
  EXPECT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(file.out, "");
  EXPECT_THAT(file.err, MatchesRegex("Mixtral-8x7B: [^\n]*GB/s\\)\n"));
  const ProgramResult pipe = RunSynth("--model mixtral-8x7b --tiny --seed 3 -t 1 - | cat");
  EXPECT_TRUE(pipe.out == ReadBinary(dir.File("a.gguf")));
  const ProgramResult early = RunSynth("--model qwen3-30b-a3b - | head -c 1000 | wc -c");
  EXPECT_THAT(early.out, HasSubstr("1000"));
}

TEST(CliSynth, TinyModelsRunAlikeOnBothDevices) {
  TempDir dir;
  for (const char* type : {"q4_0", "q4_k_m"}) {
    const std::string path = dir.File(std::string(type) + ".gguf");
    ASSERT_EQ(RunSynth("--model olmoe-1b-7b --tiny --type " + std::string(type) + " " + path).exit_code, 0);
    const auto run = [&](const char* device) {
      const ProgramResult result = RunEstream({"run", path, "-p", "one two three", "--device", device, "--json"});
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return Json::parse(result.out);
    };
    const Json cpu = run("cpu"), reference = run("reference");
    EXPECT_EQ(cpu["token_ids"], reference["token_ids"]);
    EXPECT_EQ(cpu["top"][0]["id"], reference["top"][0]["id"]);
  }
}

TEST(CliSynth, ListsTheModelsOfThePaper) {
  const ProgramResult result = RunSynth("--list");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\nqwen3-30b-a3b       48 (48)  128           0.91       16.31      17.22\n"));
}

// The size of a real one, without its weights: what is read of 17 GB is the header.
TEST(CliSynth, AHollowModelOpensLikeAWholeOne) {
  const TempDir dir;
  const ProgramResult made = RunSynth("--model qwen3-30b-a3b --hollow '" + dir.File("hollow.gguf") + "'");
  if (made.exit_code != 0) GTEST_SKIP() << "the file system has no sparse files of this size: " << made.err;
  EXPECT_EQ(made.err, "");
  const ProgramResult result = RunEstream({"inspect", dir.File("hollow.gguf")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("17.22 GB"));
  EXPECT_THAT(result.out, HasSubstr("6144 records"));
  EXPECT_THAT(result.out, HasSubstr("151936 tokens, 151677 merges"));
  EXPECT_THAT(result.out, HasSubstr("\nruns           yes\n"));
}

TEST(CliSynth, MistakesAreOneSentence) {
  const struct {
    const char* arguments;
    int exit_code;
    const char* says;
  } kCases[] = {
      {"", 2, "no model given"},
      {"--model olmoe-1b-7b", 2, "no output given"},
      {"--model gpt-5 -", 2, "known: olmoe-1b-7b"},
      {"--model olmoe-1b-7b --type q2_k -", 2, "known: q4_0, q4_k_m"},
      {"--model olmoe-1b-7b --layers 17 -", 2, "16 layers"},
      {"--model olmoe-1b-7b --layers 0 -", 2, "1 to 1024"},
      {"--model olmoe-1b-7b --tiny --layers 2 -", 2, "--layers"},
      {"--model olmoe-1b-7b --hollow -", 2, "--hollow"},
      {"--model olmoe-1b-7b --tiny /no/such/folder/x.gguf", 1, "No such file"},
      {"--model olmoe-1b-7b --tiny /dev/null", 1, "not a regular file"},
  };
  for (const auto& c : kCases) {
    const ProgramResult result = RunSynth(c.arguments);
    EXPECT_EQ(result.exit_code, c.exit_code) << c.arguments;
    EXPECT_THAT(result.err, StartsWith("estream-synth: ")) << c.arguments;
    EXPECT_THAT(result.err, HasSubstr(c.says)) << c.arguments;
    EXPECT_THAT(result.err, EndsWith("\n"));
    EXPECT_EQ(SplitText(result.err, '\n').size(), 1u) << c.arguments;
  }
}

}  // namespace
}  // namespace estream
