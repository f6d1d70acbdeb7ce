// SPDX-License-Identifier: Apache-2.0
// What users see when all goes well: help, answers for people and for programs, logits files, pipes.
#include <gmock/gmock.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/cli_program.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

const char* const kVerbs[] = {"run", "classify"};

const char kSpamPrompt[] = "Message: WINNER!! Call 09061701461 now to claim your prize\nSpam:";

// `run` on the bundled model with one thread; `more` behind it.
ProgramResult RunModel(std::vector<std::string> more, const std::string& input = "") {
  more.insert(more.begin(), {"run", ModelPath(), "-t", "1"});
  return RunEstream(more, input);
}

ProgramResult ClassifyWith(std::vector<std::string> more, const std::string& input = "") {
  more.insert(more.begin(),
              {"classify", "-m", ModelPath(), "-t", "1", "--template", ModelDir() + "/templates/spam.txt"});
  return RunEstream(more, input);
}

std::vector<Json> JsonLines(const std::string& text) {
  std::vector<Json> lines;
  for (const std::string& line : SplitText(text, '\n')) lines.push_back(Json::parse(line));
  return lines;
}

TEST(Cli, VersionIsOneLine) {
  const ProgramResult result = RunEstream({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("estream [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Cli, HelpNamesEveryVerbAndEveryVerbHasExamples) {
  const ProgramResult root = RunEstream({"--help"});
  EXPECT_EQ(root.exit_code, 0);
  EXPECT_EQ(RunEstream({"-h"}).out, root.out);
  EXPECT_EQ(RunEstream({"help"}).out, root.out);
  for (const char* verb : kVerbs) {
    SCOPED_TRACE(verb);
    EXPECT_THAT(root.out, HasSubstr("\n  " + std::string(verb) + " "));
    const ProgramResult help = RunEstream({verb, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_THAT(help.out, HasSubstr("Usage: estream " + std::string(verb) + " [OPTIONS]"));
    EXPECT_THAT(help.out, HasSubstr("--model"));
    EXPECT_THAT(help.out, HasSubstr("\nExamples:\n  estream " + std::string(verb)));
    EXPECT_EQ(RunEstream({"help", verb}).out, help.out);
  }
}

TEST(Cli, RunShowsTheLikeliestTokensAndWhatItTook) {
  const ProgramResult result = RunModel({"-p", kSpamPrompt});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(SplitText(result.out, '\n')[0], HasSubstr("\" yes\""));
  for (const char* part : {" tokens, first logits after ", " tokens/s)", "peak memory ", "CPU"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b"))) << "colours belong on terminals only";
}

TEST(Cli, RunWritesOneJsonObject) {
  const ProgramResult result = RunModel({"-p", kSpamPrompt, "--json", "--top", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["tokens"], json["token_ids"].size());
  EXPECT_EQ(json["token_ids"][0], 0);  // the model asks for a BOS
  EXPECT_GT(json["ttft_s"], 0.0);
  EXPECT_GT(json["tokens_per_s"], 0.0);
  EXPECT_GT(json["load_s"], 0.0);
  EXPECT_GT(json["peak_rss_bytes"], 1 << 20);
  EXPECT_GT(json["active_experts"], 0);
  EXPECT_THAT(json["device"].get<std::string>(), StartsWith("CPU"));
  EXPECT_EQ(json["model"], ModelPath());
  EXPECT_FALSE(json["memory"].empty());
  ASSERT_EQ(json["top"].size(), 3u);
  EXPECT_EQ(json["top"][0]["text"], " yes");
  EXPECT_GT(json["top"][0]["prob"], 0.9);
  EXPECT_GE(json["top"][0]["prob"], json["top"][1]["prob"]);
}

TEST(Cli, ThePromptIsTheSameFromEverySource) {
  const TempDir dir;
  WriteBinary(dir.File("prompt.txt"), std::string(kSpamPrompt) + "\n");  // one final newline is dropped
  const Json from_flag = Json::parse(RunModel({"-p", kSpamPrompt, "--json"}).out);
  const Json escaped = Json::parse(
      RunModel({"-e", "-p", "Message: WINNER!! Call 09061701461 now to claim your prize\\nSpam:", "--json"}).out);
  const Json from_file = Json::parse(RunModel({"-f", dir.File("prompt.txt"), "--json"}).out);
  const Json from_input = Json::parse(RunModel({"-f", "-", "--json"}, kSpamPrompt).out);
  std::string ids;
  for (const Json& id : from_flag["token_ids"]) ids.append(ids.empty() ? "" : ",").append(id.dump());
  const Json from_ids = Json::parse(RunModel({"--tokens", ids, "--json"}).out);
  for (const Json& other : {escaped, from_file, from_input, from_ids}) {
    EXPECT_EQ(other["token_ids"], from_flag["token_ids"]);
    EXPECT_EQ(other["top"], from_flag["top"]);
  }
}

TEST(Cli, ControlTokensInAPromptAreTextUnlessAskedFor) {
  const auto ids = [](std::vector<std::string> more) {
    more.insert(more.end(), {"-p", "a<|endoftext|>", "--json"});
    return Json::parse(RunModel(more).out)["token_ids"].get<std::vector<int>>();
  };
  EXPECT_EQ(::testing::Matches(::testing::Contains(0).Times(1))(ids({})), true);
  EXPECT_EQ(::testing::Matches(::testing::Contains(0).Times(2))(ids({"--parse-special"})), true);
  EXPECT_EQ(::testing::Matches(::testing::Contains(0).Times(0))(ids({"--no-bos"})), true);
}

TEST(Cli, BytesThatAreNotUtf8KeepJsonValidAndTerminalsSafe) {
  const ProgramResult run = RunModel({"-p", "\xff\xfe\x1b[2J", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out)["top"].size(), 5u);
  const std::string text = "bad \xff bytes \x1b[2J";
  const ProgramResult json = ClassifyWith({"--labels", "yes,no", "--json", text});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(Json::parse(json.out)["text"], "bad \\xff bytes \x1b[2J");
  const ProgramResult rows = ClassifyWith({"--labels", "yes,no", text});
  EXPECT_THAT(rows.out, HasSubstr("bad \\xff bytes \\x1b[2J"));
}

// An .npy file of f32 rows, read by its specification: magic, version 1.0, u16 header length, Python dictionary.
struct Npy {
  std::string header;
  std::vector<float> values;
};
Npy ReadNpy(const std::string& path) {
  const std::string bytes = ReadBinary(path);
  EXPECT_THAT(bytes, StartsWith(std::string("\x93NUMPY\x01\x00", 8)));
  const size_t length = static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  Npy npy{bytes.substr(10, length), {}};
  npy.values.resize((bytes.size() - 10 - length) / sizeof(float));
  std::memcpy(npy.values.data(), bytes.data() + 10 + length, npy.values.size() * sizeof(float));
  return npy;
}

TEST(Cli, LogitsFilesHoldTheLastRowOrAll) {
  const TempDir dir;
  const std::string last = dir.File("last.npy"), all = dir.File("all.npy");
  const ProgramResult result = RunModel({"-p", kSpamPrompt, "--json", "--logits", last});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ASSERT_EQ(RunModel({"-p", kSpamPrompt, "--logits", all, "--all-rows"}).exit_code, 0);
  const Json json = Json::parse(result.out);
  const size_t tokens = json["tokens"];
  const Npy one_row = ReadNpy(last), all_rows = ReadNpy(all);
  EXPECT_THAT(one_row.header, HasSubstr("'descr': '<f4'"));
  EXPECT_THAT(one_row.header, HasSubstr("'shape': (1, 2048)"));
  EXPECT_THAT(all_rows.header, HasSubstr("'shape': (" + std::to_string(tokens) + ", 2048)"));
  ASSERT_EQ(one_row.values.size(), 2048u);
  ASSERT_EQ(all_rows.values.size(), tokens * 2048);
  EXPECT_EQ(std::memcmp(one_row.values.data(), all_rows.values.data() + (tokens - 1) * 2048, 2048 * sizeof(float)), 0)
      << "the last row must not depend on which rows were asked for";
  const auto best = std::max_element(one_row.values.begin(), one_row.values.end()) - one_row.values.begin();
  EXPECT_EQ(json["top"][0]["id"], best);
}

TEST(Cli, ClassifyPrintsARowForEachTextAndASummary) {
  const ProgramResult result = ClassifyWith(
      {"--labels", "yes,no", "--names", "spam, not spam", "WINNER!! Call 09061701461 to claim", "see you at six"});
  EXPECT_EQ(result.exit_code, 0);
  const auto rows = SplitText(result.out, '\n');
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0], StartsWith("spam "));
  EXPECT_THAT(rows[0], EndsWith("   WINNER!! Call 09061701461 to claim"));
  EXPECT_THAT(rows[1], StartsWith("not spam "));
  EXPECT_THAT(result.err, StartsWith("2 texts in "));
  EXPECT_THAT(result.err, HasSubstr("peak memory "));
  EXPECT_EQ(ClassifyWith({"--labels", "yes,no", "-q", "x"}).err, "");
}

TEST(Cli, ClassifyWritesAJsonObjectForEachLine) {
  const ProgramResult result = ClassifyWith({"--labels", "yes,no", "--json", "-f", "-"}, "first\n\n[a, b]\r\n{}");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto rows = JsonLines(result.out);
  ASSERT_EQ(rows.size(), 4u);
  const char* const texts[] = {"first", "", "[a, b]", "{}"};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["text"], texts[i]);
    EXPECT_EQ(rows[i]["passes"], 1);
    ASSERT_EQ(rows[i]["scores"].size(), 2u);
    EXPECT_EQ(rows[i]["scores"][0]["label"], "yes");
    EXPECT_EQ(rows[i]["scores"][0]["token_ids"], Json::array({439}));
    const double yes = rows[i]["scores"][0]["probability"], no = rows[i]["scores"][1]["probability"];
    EXPECT_NEAR(yes + no, 1, 1e-12);
    EXPECT_EQ(rows[i]["label"], yes > no ? "yes" : "no");
  }
}

TEST(Cli, TextsOnTheCommandLineAreTakenAsTheyStand) {
  const ProgramResult result =
      ClassifyWith({"--labels", "yes,no", "--json", "[a, b]", "{}", "--", "--labels", "-x", "run"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> texts;
  for (const Json& row : JsonLines(result.out)) texts.push_back(row["text"]);
  EXPECT_THAT(texts, ::testing::ElementsAre("[a, b]", "{}", "--labels", "-x", "run"));
}

TEST(Cli, AnEmptyFlagValueIsEmpty) {
  for (const std::vector<std::string>& prefix : {std::vector<std::string>{"--label-prefix="}, {"--label-prefix", ""}}) {
    std::vector<std::string> arguments = prefix;
    arguments.insert(arguments.end(), {"--labels", " yes, no", "--json", "x"});
    const ProgramResult result = ClassifyWith(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(Json::parse(result.out)["scores"][0]["token_ids"], Json::array({439})) << "' yes' had a space in front";
  }
}

TEST(Cli, AReaderThatLeavesEarlyEndsTheProgramQuietly) {
  const ProgramResult result = RunShell(
      "yes 'see you at six' | head -n 2000 | \"$ESTREAM\" classify -m \"$MODEL\" -t 1 --labels yes,no -f - | head -n "
      "1");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("see you at six\n"));
}

TEST(Cli, AFullDiskIsAnError) {
  for (const char* verb : {"run \"$MODEL\" -p x", "classify \"$MODEL\" --labels yes,no x", "--help"}) {
    const ProgramResult result = RunShell(std::string("\"$ESTREAM\" ") + verb + " > /dev/full");
    EXPECT_EQ(result.exit_code, 1) << verb;
    EXPECT_THAT(result.err, StartsWith("estream: cannot write to standard output: No space left on device")) << verb;
  }
}

}  // namespace
}  // namespace estream
