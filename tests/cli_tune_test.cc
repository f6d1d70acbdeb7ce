// SPDX-License-Identifier: Apache-2.0
// What users see of `estream tune`, `estream plan` and --memory.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli_program.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;
namespace fs = std::filesystem;

// A folder with a pack in it.
class CliTune : public ::testing::Test {
 protected:
  CliTune() {
    WriteBinary(dir_.File("m.gguf"), ReadBinary(TestData("models/olmoe-m-q4_0.gguf")));
    EXPECT_EQ(RunEstream({"pack", dir_.File("m.gguf"), "-q"}).exit_code, 0);
  }
  void ExpectFails(const std::vector<std::string>& arguments, int code, const std::string& message) {
    const ProgramResult result = RunEstream(arguments);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_LT(result.err.size(), 400u);
  }

  TempDir dir_;
  const std::string pack_ = dir_.File("m.estream.gguf");
  const std::string profile_ = dir_.File("m.profile.json");
};

TEST_F(CliTune, TunesAndSaysWhatItFound) {
  const ProgramResult tuned = RunEstream({"tune", pack_, "--workload", "4,16", "-t", "1"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_EQ(tuned.err, "");
  EXPECT_THAT(tuned.out, StartsWith("reads, GB/s"));
  EXPECT_THAT(tuned.out, HasSubstr("chosen: G="));
  EXPECT_THAT(tuned.out, HasSubstr("16 tokens with it: predicted "));
  EXPECT_THAT(tuned.out, HasSubstr("m.profile.json written after "));
  EXPECT_EQ(Json::parse(ReadBinary(profile_))["format"], "estream-profile");

  const ProgramResult planned = RunEstream({"plan", pack_, "-t", "1", "--tokens", "16,4"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(planned.err, "");
  EXPECT_THAT(planned.out, HasSubstr("measured by estream tune"));
  EXPECT_THAT(planned.out, HasSubstr("chosen"));
  EXPECT_THAT(planned.out, HasSubstr("non-expert weights"));
}

TEST_F(CliTune, RunStreamsByTheProfileAndFlagsWin) {
  ASSERT_EQ(RunEstream({"tune", pack_, "--quick", "-t", "1", "--json"}).exit_code, 0);
  const auto shape = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"run", pack_, "--tokens", "5,6,7,8", "-t", "1", "--json", "-v"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ProgramResult result = RunEstream(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("budget "));
    return Json::parse(result.out)["experts"].get<std::string>();
  };
  const Json plan = Json::parse(RunEstream({"plan", pack_, "-t", "1", "--tokens", "4", "--json"}).out)["plans"][0];
  const auto number = [&](const char* key) { return std::to_string(plan["shape"][key].get<int>()); };
  EXPECT_THAT(shape({}),
              StartsWith("stream, G=" + number("group") + " B=" + number("banks") + " Q=" + number("queue_depth")));
  EXPECT_THAT(shape({"--group", "2", "--banks", "5", "--queue-depth", "3"}), StartsWith("stream, G=2 B=5 Q=3"));
  EXPECT_THAT(shape({"--group", "2", "--schedule", "per-layer"}), StartsWith("per-layer, G=2 "));
}

TEST_F(CliTune, AProfileThatDoesNotFitIsSaidAndLeftAlone) {
  ASSERT_EQ(RunEstream({"tune", pack_, "--quick", "-t", "1"}).exit_code, 0);
  const std::string before = ReadBinary(profile_);
  const ProgramResult result = RunEstream({"run", pack_, "--tokens", "5,6", "-t", "1", "--activations", "f32"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("not used: activations was q8, is f32"));
  EXPECT_THAT(result.out, HasSubstr("G=2 B=6 Q=2"));
  EXPECT_EQ(ReadBinary(profile_), before);
}

TEST_F(CliTune, ABrokenProfileIsRefusedByName) {
  WriteBinary(profile_, "{}");
  ExpectFails({"run", pack_, "--tokens", "5"}, 1, "m.profile.json: is no profile");
  ExpectFails({"plan", pack_}, 1, "m.profile.json: is no profile");
  EXPECT_EQ(RunEstream({"run", pack_, "--tokens", "5", "--group", "1", "--banks", "2", "--queue-depth", "1"}).exit_code,
            0)
      << "nothing is to be chosen";
}

TEST_F(CliTune, PlansWithoutAProfileToo) {
  const ProgramResult planned = RunEstream({"plan", pack_, "--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("no profile of this machine"));
  const Json plan = Json::parse(planned.out)["plans"][0];
  EXPECT_TRUE(plan["passes"].empty());
  EXPECT_GT(plan["memory_bytes"], 0);
  EXPECT_EQ(plan["budget_bytes"].get<uint64_t>() > 0, true);
}

TEST_F(CliTune, PlansForAnotherMachineFromTheModelAlone) {
  ASSERT_EQ(RunEstream({"tune", pack_, "--quick", "-t", "1"}).exit_code, 0);
  fs::rename(profile_, dir_.File("other.json"));
  fs::remove(pack_);
  const ProgramResult planned =
      RunEstream({"plan", dir_.File("m.gguf"), "--device-profile", dir_.File("other.json"), "--tokens", "8", "--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(planned.err, "");
  const Json plan = Json::parse(planned.out)["plans"][0];
  EXPECT_EQ(plan["profile"], "m.estream.gguf");
  EXPECT_GT(plan["passes"][0]["ttft_s"], 0);
  EXPECT_FALSE(fs::exists(pack_)) << "planning packs nothing";
  ExpectFails({"plan", ModelPath(), "--device-profile", dir_.File("other.json")}, 1, "no profile of a model of ");
}

TEST_F(CliTune, WhatExceedsTheBudgetIsRefusedWithTheFloor) {
  for (const char* verb : {"run", "plan"}) {
    ExpectFails({verb, pack_, "--tokens", "5", "--memory", "1M"}, 1, "needs at least ");
  }
  const ProgramResult result = RunEstream({"run", pack_, "--tokens", "5", "--memory", "1G"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(CliTune, MistakesAreUsageErrors) {
  ExpectFails({"run", pack_, "--tokens", "5", "--memory", "lots"}, 2, "--memory: expected a size like 900M");
  ExpectFails({"plan", pack_, "--tokens", "0"}, 2, "--tokens: expected lengths like 64,1024");
  ExpectFails({"plan"}, 2, "no model given");
  ExpectFails({"tune", pack_, "extra"}, 2, "unexpected argument");
  ExpectFails({"tune", pack_, "--quick", "--workload", "1"}, 2, "--workload does not go with --quick");
  ExpectFails({"tune", pack_, "--workload", dir_.File("none")}, 1, "none");
}

// The profile of the paper's phone: its schedules come in the order of Figure 6, after-routing within a point of it.
TEST_F(CliTune, ThePhoneOfThePaperIsPlanned) {
  const std::string model = dir_.File("olmoe.gguf");
  ASSERT_EQ(RunShell("\"$(dirname \"$ESTREAM\")\"/estream-synth --model olmoe-1b-7b --hollow " + model).exit_code, 0);
  const auto bubbles = [&](const char* schedule, const char* depth) {
    const ProgramResult planned = RunEstream(
        {"plan", model, "--device-profile", std::string(ES_SOURCE_DIR) + "/share/profiles/oneplus-15.json", "--tokens",
         "1024", "--group", "8", "--banks", "3", "--queue-depth", depth, "--schedule", schedule, "--json"});
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    const Json plans = Json::parse(planned.out)["plans"];
    EXPECT_EQ(plans.size(), 2u);
    EXPECT_EQ(plans[0]["profile"], "OLMoE-1B-7B, fast");
    return plans[0]["passes"][0]["bubble_rate"].get<double>();
  };
  const double on_demand = bubbles("on-demand", "1"), after = bubbles("after-routing", "2");
  EXPECT_NEAR(after, 0.2136, 0.01);
  EXPECT_GT(on_demand, after + 0.05);
  EXPECT_LT(bubbles("per-layer", "2"), after - 0.05);
}

// The signal may come before the program listens; then it ends by it.
TEST_F(CliTune, AnInterruptLeavesNothing) {
  const ProgramResult result =
      RunShell("cd " + dir_.path() +
               " && { $ESTREAM tune m.estream.gguf --workload 256 & } && sleep 0.2 && kill -TERM $! && wait $!");
  EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 128 + SIGTERM) << result.exit_code << result.err;
  if (result.exit_code == 1) {
    EXPECT_THAT(result.err, HasSubstr("interrupted"));
  }
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    EXPECT_TRUE(entry.path().string().ends_with(".gguf")) << entry.path();
  }
}

}  // namespace
}  // namespace estream
