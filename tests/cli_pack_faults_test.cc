// SPDX-License-Identifier: Apache-2.0
// What happens to packs: cut, deleted, replaced, on a file system without direct reads, without room to be written.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "estream/engine.h"
#include "tests/cli_program.h"
#include "tests/test_files.h"

namespace estream {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
namespace fs = std::filesystem;

// A small model and its pack.
class CliPackFaults : public ::testing::Test {
 protected:
  CliPackFaults() {
    WriteBinary(dir_.File("m.gguf"), ReadBinary(TestData("models/olmoe-m-q4_0.gguf")));
    EXPECT_EQ(RunEstream({"pack", dir_.File("m.gguf"), "-o", pack_, "-q"}).exit_code, 0);
  }

  static ProgramResult Run(const std::string& pack) { return RunEstream({"run", pack, "--tokens", "1,2,3", "--json"}); }

  std::unique_ptr<Engine> Open() const {
    auto model = Model::Open(pack_);
    EXPECT_TRUE(model.ok()) << model.status().message();
    EngineOptions options;
    options.max_tokens = 8;
    auto engine = Engine::Open(*model, options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return std::move(*engine);
  }

  // The last row's logits, or nothing after an error, which goes to status_.
  std::vector<float> Logits(Engine* engine) {
    const std::vector<int32_t> tokens = {1, 2, 3};
    std::vector<float> logits;
    const auto report = engine->Prefill({.tokens = tokens, .rows = {}}, [&](uint32_t, std::span<const float> row) {
      logits.assign(row.begin(), row.end());
      return Status::Ok();
    });
    status_ = report.status();
    return report.ok() ? logits : std::vector<float>();
  }

  TempDir dir_;
  const std::string pack_ = dir_.File("m.estream.gguf");
  Status status_;
};

TEST_F(CliPackFaults, ACutPackIsRefusedWhereverItIsCut) {
  const uint64_t whole = fs::file_size(pack_);
  for (const uint64_t size : {whole - 1, whole / 2, whole / 10, uint64_t{4096}, uint64_t{100}, uint64_t{0}}) {
    SCOPED_TRACE(size);
    fs::copy_file(pack_, dir_.File("cut"), fs::copy_options::overwrite_existing);
    fs::resize_file(dir_.File("cut"), size);
    for (const char* verb : {"run", "verify"}) {
      std::vector<std::string> arguments = {verb, dir_.File("cut")};
      if (arguments[0] == "run") arguments.insert(arguments.end(), {"--tokens", "1"});
      const ProgramResult result = RunEstream(arguments);
      EXPECT_EQ(result.exit_code, 1) << verb;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, HasSubstr("cut"));
      EXPECT_LT(result.err.size(), 300u);
    }
  }
}

TEST_F(CliPackFaults, APackDeletedOrReplacedWhileOpenIsReadToItsEnd) {
  const auto engine = Open();
  const std::vector<float> before = Logits(engine.get());
  ASSERT_FALSE(before.empty()) << status_.message();
  WriteBinary(dir_.File("other"), std::string(4096, '\0'));
  fs::rename(dir_.File("other"), pack_);
  EXPECT_EQ(Logits(engine.get()), before) << status_.message();
  fs::remove(pack_);
  EXPECT_EQ(Logits(engine.get()), before) << status_.message();
}

TEST_F(CliPackFaults, APackCutWhileOpenFailsItsRequestsByName) {
  const auto engine = Open();
  ASSERT_FALSE(Logits(engine.get()).empty()) << status_.message();
  fs::resize_file(pack_, 4096);
  for (int request = 0; request < 2; ++request) {
    EXPECT_TRUE(Logits(engine.get()).empty());
    EXPECT_THAT(status_.message(), HasSubstr("m.estream.gguf"));
  }
}

// tmpfs takes no direct reads before Linux 6.6.
TEST_F(CliPackFaults, WithoutDirectReadsTheAnswerIsTheSame) {
  const std::string folder = "/dev/shm/estream-test-" + fs::path(dir_.path()).filename().string();
  std::error_code error;
  if (!fs::create_directory(folder, error)) GTEST_SKIP() << "no /dev/shm here";
  fs::copy(pack_, folder + "/p");
  const ProgramResult disk = Run(pack_), memory = Run(folder + "/p");
  fs::remove_all(folder);
  ASSERT_EQ(memory.exit_code, 0) << memory.err;
  EXPECT_EQ(Json::parse(memory.out)["top"], Json::parse(disk.out)["top"]);
  EXPECT_THAT(std::string(Json::parse(memory.out)["experts"]),
              ::testing::AnyOf(HasSubstr(", buffered ("), HasSubstr(", direct")));
}

// A limit on file sizes fails writes as a full disk does.
TEST_F(CliPackFaults, WithoutRoomNothingIsLeftThatLooksWhole) {
  const ProgramResult result = RunShell("cd '" + dir_.path() +
                                        "'; rm -f m.estream.gguf; trap '' XFSZ; ulimit -f 32; exec \"$ESTREAM\" pack "
                                        "m.gguf -q");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("m.estream.gguf"));
  EXPECT_FALSE(fs::exists(pack_));
  EXPECT_EQ(RunEstream({"pack", dir_.File("m.gguf"), "-q"}).exit_code, 0) << "with room";
  EXPECT_EQ(RunEstream({"verify", pack_}).exit_code, 0);
}

}  // namespace
}  // namespace estream
