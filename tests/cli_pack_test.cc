// SPDX-License-Identifier: Apache-2.0
// What users see of `estream pack` and `estream verify`.
#include <gmock/gmock.h>
#include <unistd.h>

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

// A folder with a model in it.
class CliPack : public ::testing::Test {
 protected:
  CliPack() {
    WriteBinary(dir_.File("m.gguf"), ReadBinary(TestData("models/olmoe-m-q4_0.gguf")));
    pack_ = dir_.File("m.estream.gguf");
  }
  void ExpectFails(const std::vector<std::string>& arguments, int code, const std::string& message) {
    const ProgramResult result = RunEstream(arguments);
    EXPECT_EQ(result.exit_code, code) << arguments[0];
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("estream: "));
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_LT(result.err.size(), 300u);
  }

  TempDir dir_;
  std::string pack_;
};

TEST_F(CliPack, PacksBesideTheModelAndVerifies) {
  const ProgramResult packed = RunEstream({"pack", dir_.File("m.gguf")});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_EQ(packed.err, "");
  EXPECT_THAT(packed.out, StartsWith(pack_ + ": 72.0 KiB from 37.4 KiB in "));
  EXPECT_FALSE(fs::exists(pack_ + ".partial"));

  const ProgramResult verified = RunEstream({"verify", pack_, "--source", dir_.File("m.gguf")});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("hashes are right"));
  EXPECT_EQ(RunEstream({"inspect", pack_}).exit_code, 0);
}

TEST_F(CliPack, JsonSaysWhatWasDone) {
  const ProgramResult packed = RunEstream({"pack", dir_.File("m.gguf"), "--json", "-t", "1"});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  const Json json = Json::parse(packed.out);
  EXPECT_EQ(json["pack"], pack_);
  EXPECT_EQ(json["pack_bytes"], fs::file_size(pack_));
  EXPECT_EQ(json["source_bytes"], fs::file_size(dir_.File("m.gguf")));
  const Json verified = Json::parse(RunEstream({"verify", pack_, "--json"}).out);
  EXPECT_EQ(verified["ok"], true);
  EXPECT_EQ(verified["bytes"], fs::file_size(pack_));
  EXPECT_TRUE(verified["bad"].empty());
}

TEST_F(CliPack, PacksAPipe) {
  const std::string model = ReadBinary(dir_.File("m.gguf"));
  const ProgramResult packed = RunEstream({"pack", "-", "-o", pack_, "-q"}, model);
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_EQ(packed.out, "");
  EXPECT_EQ(RunEstream({"verify", pack_, "-q"}).exit_code, 0);
  EXPECT_EQ(RunEstream({"pack", "-", "-o", pack_, "--force"}, model.substr(0, 20000)).exit_code, 1);
  EXPECT_EQ(RunEstream({"verify", pack_, "-q"}).exit_code, 0) << "a failed run must leave the old pack";
}

TEST_F(CliPack, DamageIsNamed) {
  ASSERT_EQ(RunEstream({"pack", dir_.File("m.gguf"), "-q"}).exit_code, 0);
  std::string bytes = ReadBinary(pack_);
  bytes[bytes.size() - 100] ^= 1;  // in the head, which is last
  WriteBinary(pack_, bytes);
  const ProgramResult damaged = RunEstream({"verify", pack_});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_EQ(damaged.out, "damaged: output\n");
  EXPECT_THAT(damaged.err, HasSubstr("is damaged in output"));
  const ProgramResult json = RunEstream({"verify", pack_, "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(Json::parse(json.out)["bad"], Json::array({"output"}));
}

TEST_F(CliPack, ReplaceLeavesThePackAlone) {
  const ProgramResult packed = RunEstream({"pack", dir_.File("m.gguf"), "--replace"});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_THAT(packed.out, HasSubstr("verified, source removed"));
  EXPECT_FALSE(fs::exists(dir_.File("m.gguf")));
  EXPECT_TRUE(fs::exists(pack_));
}

TEST_F(CliPack, MistakesAreAnsweredInOneSentence) {
  ExpectFails({"pack"}, 2, "no model given");
  ExpectFails({"pack", "a", "b"}, 2, "unexpected argument \"b\"");
  ExpectFails({"pack", "-"}, 2, "needs a name");
  ExpectFails({"pack", "-", "-o", pack_, "--replace"}, 2, "--replace");
  ExpectFails({"pack", "-", "-o", pack_, "--order", "-"}, 2, "--order");
  ExpectFails({"pack", dir_.File("none.gguf")}, 1, "none.gguf: cannot be opened");
  ExpectFails({"pack", dir_.File("m.gguf"), "-o", dir_.File("m.gguf"), "--force"}, 1, "is the model itself");
  ExpectFails({"pack", dir_.File("m.gguf"), "--forse"}, 2, "did you mean --force?");
  WriteBinary(dir_.File("order"), "0 1 2 3\n0 1 2 2\n");
  ExpectFails({"pack", dir_.File("m.gguf"), "--order", dir_.File("order")}, 1, "order: line 2 holds 2 twice");
  ASSERT_EQ(RunEstream({"pack", dir_.File("m.gguf"), "-q"}).exit_code, 0);
  ExpectFails({"pack", dir_.File("m.gguf")}, 1, "exists already; --force replaces it");
  ExpectFails({"pack", pack_}, 1, "is a pack already");
  ExpectFails({"verify"}, 2, "no pack given");
  ExpectFails({"verify", dir_.File("m.gguf")}, 1, "not a pack");
  ExpectFails({"verify", pack_, "--source", TestData("models/olmoe-t-q4_0.gguf")}, 1, "does not belong to");
}

// ^C: the program ends soon and well. The signal comes when its file is there and the pipe has nothing more for it;
// from a pipe nothing is left.
TEST_F(CliPack, AnInterruptedPipeLeavesNothing) {
  const std::string model = TestData("models/olmoe-t-f32.gguf");  // longer than what is read ahead
  const ProgramResult result = RunShell(
      "cd '" + dir_.path() + "'; mkfifo f; exec 3<>f; \"$ESTREAM\" pack - -o p <f 3<&- & pid=$!; head -c 600000 '" +
      model + "' >f; while ! [ -e p.partial ]; do :; done; kill -INT $pid; tail -c +600001 '" + model +
      "' >f; wait $pid");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("stopped; nothing is left behind"));
  EXPECT_FALSE(fs::exists(dir_.File("p")));
  EXPECT_FALSE(fs::exists(dir_.File("p.partial")));
}

// A file is continued. When the signal comes before the first megabytes or after the last, the whole is tried again.
TEST_F(CliPack, AnInterruptedFileIsContinued) {
  const ProgramResult made = RunShell("\"$(dirname \"$ESTREAM\")\"/estream-synth --model olmoe-1b-7b --layers 1 '" +
                                      dir_.File("big.gguf") + "'");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  ProgramResult stopped;
  for (int attempt = 0; attempt < 40 && !fs::exists(dir_.File("p.partial")); ++attempt) {
    stopped = RunShell("cd '" + dir_.path() + "'; rm -f p; \"$ESTREAM\" pack big.gguf -o p -q & pid=$!; sleep 0." +
                       std::to_string(10 + attempt) + "; kill -INT $pid; wait $pid");
  }
  ASSERT_TRUE(fs::exists(dir_.File("p.partial")));
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_THAT(stopped.err, HasSubstr("p.partial: stopped after "));
  EXPECT_FALSE(fs::exists(dir_.File("p")));

  const ProgramResult continued = RunEstream({"pack", dir_.File("big.gguf"), "-o", dir_.File("p"), "--json"});
  ASSERT_EQ(continued.exit_code, 0) << continued.err;
  EXPECT_GT(Json::parse(continued.out)["resumed_bytes"], 0);
  EXPECT_FALSE(fs::exists(dir_.File("p.partial")));
  EXPECT_EQ(RunEstream({"verify", dir_.File("p"), "--source", dir_.File("big.gguf")}).exit_code, 0);
}

// Who may not lock memory cannot register buffers with io_uring: the answer is the same, and the report says how.
TEST_F(CliPack, StreamsAsAnOrdinaryUserWithoutLockedMemory) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become someone else";
  // A model whose arena is larger than any limit below, whatever else the system counts. Small ones register after all.
  WriteBinary(dir_.File("m.gguf"), ReadBinary(TestData("models/olmoe-t-f32.gguf")));
  ASSERT_EQ(RunEstream({"pack", dir_.File("m.gguf"), "-q"}).exit_code, 0);
  fs::copy(ProgramPath(), dir_.File("estream"));
  fs::permissions(dir_.path(), fs::perms(0755));
  const std::string run = " run -m '" + pack_ + "' --tokens 1,2,3 --json";
  const ProgramResult root = RunShell("\"$ESTREAM\"" + run);
  ASSERT_EQ(root.exit_code, 0) << root.err;
  // Some systems count the ring itself, too, and have none at all for who may lock nothing.
  for (const std::string kilobytes : {"0", "16", "32"}) {
    const ProgramResult user =
        RunShell("ulimit -l " + kilobytes + "; cd /; exec setpriv --reuid=65534 --regid=65534 --clear-groups '" +
                 dir_.File("estream") + "'" + run);
    ASSERT_EQ(user.exit_code, 0) << user.err;
    EXPECT_EQ(Json::parse(user.out)["top"], Json::parse(root.out)["top"]);
    const std::string how = Json::parse(user.out)["experts"];
    EXPECT_THAT(how, ::testing::AnyOf(HasSubstr("unregistered buffers ("), HasSubstr(", threads (")));
  }
}

}  // namespace
}  // namespace estream
