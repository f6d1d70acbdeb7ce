// SPDX-License-Identifier: Apache-2.0
// Making packs: the same bytes from a file, a pipe and any number of interrupted runs; and all the ways it can fail.
#include "pack/pack_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/malformed_cases.h"
#include "tests/pack_rig.h"
#include "tests/tiny_model.h"

namespace estream {
namespace {

namespace fs = std::filesystem;

// Keys in which packs of one model may differ.
const std::set<std::string> kIdentityKeys = {"estream.source.file", "estream.source.bytes", "estream.source.mtime_ns",
                                             "estream.hash.header"};

void ExpectSamePack(const std::string& a_path, const std::string& b_path) {
  const Gguf a = Gguf::Open(a_path).value(), b = Gguf::Open(b_path).value();
  ASSERT_EQ(a.metadata().size(), b.metadata().size());
  for (size_t i = 0; i < a.metadata().size(); ++i) {
    const auto& [key, value] = a.metadata()[i];
    EXPECT_EQ(key, b.metadata()[i].first);
    if (kIdentityKeys.contains(key)) continue;
    EXPECT_TRUE(std::ranges::equal(value.bytes(), b.metadata()[i].second.bytes())) << key;
  }
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (size_t t = 0; t < a.tensors().size(); ++t) {
    const GgufTensor &x = a.tensors()[t], &y = b.tensors()[t];
    ASSERT_EQ(x.bytes, y.bytes);
    std::vector<std::byte> p(x.bytes), q(y.bytes);
    ASSERT_TRUE(a.ReadTensor(x, 0, p).ok() && b.ReadTensor(y, 0, q).ok());
    EXPECT_EQ(p, q) << x.name;
  }
}

TEST(PackModel, APipeGivesThePackOfTheFile) {
  const TempDir dir;
  WriteBinary(dir.File("order"), "3 0 2 1\n1 0 3 2\n");
  for (const char* name :
       {"olmoe-m-q4_0", "olmoe-t-f16", "olmoe-k-q4_k_m", "olmoe-s-stock_q4_0", "mixtral-m-q4_0", "qwen3moe-m-q4_0",
        "lfm2moe-k-q4_k_m", "deepseek2-m-fused-q4_0", "deepseek2-k-split-q4_k_m"}) {
    SCOPED_TRACE(name);
    const std::string order = std::string(name) == "olmoe-m-q4_0" ? dir.File("order") : "";
    ASSERT_TRUE(MakePack(ModelPath(name), dir.File(std::string(name) + ".a"), order).ok());
    PackOptions options = PackTo("-", dir.File(std::string(name) + ".b"));
    options.order_file = order;
    PackReport report;
    const std::string bytes = ReadBinary(ModelPath(name)) + "trailing";
    const Status status = PackFromPipe(options, bytes, 60'001, &report);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(report.source_bytes, bytes.size());
    ExpectSamePack(dir.File(std::string(name) + ".a"), dir.File(std::string(name) + ".b"));
    EXPECT_TRUE(PackFile::Open(options.out)->Verify({}, nullptr).ok());
  }
}

TEST(PackModel, ThreadsDoNotChangeThePack) {
  const TempDir dir;
  std::string first;
  for (const uint32_t threads : {1u, 2u, 7u}) {
    PackOptions options = PackTo(ModelPath("olmoe-t-q8_0"), dir.File("p"));
    options.threads = threads;
    options.force = true;
    PackReport report;
    ASSERT_TRUE(PackModel(options, &report).ok());
    const std::string bytes = ReadBinary(dir.File("p"));
    EXPECT_EQ(report.pack_bytes, bytes.size());
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << threads;
  }
}

// Packs with a cancel after `steps` calls of progress in the packing phase.
Status PackUntil(PackOptions options, uint64_t steps, PackReport* report) {
  std::atomic<bool> cancel{false};
  uint64_t calls = 0;
  options.cancel = &cancel;
  options.progress = [&](const PackProgress& p) {
    if (std::string(p.phase) == "packing" && ++calls == steps) cancel = true;
  };
  return PackModel(options, report);
}

TEST(PackModel, AnInterruptedRunIsContinuedToTheSameFile) {
  const TempDir dir;
  PackOptions options = PackTo(ModelPath("olmoe-m-q4_0"), dir.File("whole"));
  PackReport report;
  ASSERT_TRUE(PackModel(options, &report).ok());
  const std::string whole = ReadBinary(dir.File("whole"));
  options.out = dir.File("p");
  bool interrupted = true;
  for (uint64_t k = 1; interrupted; ++k) {
    const Status status = PackUntil(options, k, &report);
    interrupted = !status.ok();
    if (interrupted) {
      ASSERT_EQ(status.code(), StatusCode::kCancelled) << status.message();
      EXPECT_NE(status.message().find("p.partial: stopped after"), std::string::npos) << status.message();
      EXPECT_FALSE(fs::exists(options.out));
      EXPECT_FALSE(Gguf::Open(options.out + ".partial").ok()) << "an unfinished file must not pass for a model";
      ASSERT_TRUE(PackModel(options, &report).ok());
      EXPECT_GT(report.resumed_bytes, 0u) << k;
      EXPECT_FALSE(report.restarted);
    }
    ASSERT_EQ(ReadBinary(options.out), whole) << "stopped after " << k;
    EXPECT_FALSE(fs::exists(options.out + ".partial"));
    ASSERT_TRUE(fs::remove(options.out));
  }
}

TEST(PackModel, ManyInterruptionsGiveTheSameFile) {
  const TempDir dir;
  PackOptions options = PackTo(ModelPath("olmoe-t-q4_0"), dir.File("whole"));
  PackReport report;
  ASSERT_TRUE(PackModel(options, &report).ok());
  options.out = dir.File("p");
  uint64_t resumed = 0;
  for (int run = 0; run < 1000; ++run) {
    const Status status = PackUntil(options, 2, &report);
    EXPECT_GE(report.resumed_bytes, resumed);
    resumed = report.resumed_bytes;
    if (status.ok()) break;
    ASSERT_EQ(status.code(), StatusCode::kCancelled) << status.message();
  }
  EXPECT_EQ(ReadBinary(options.out), ReadBinary(dir.File("whole")));
}

TEST(PackModel, ADamagedPartialFileIsMadeGood) {
  const TempDir dir;
  PackOptions options = PackTo(ModelPath("olmoe-m-q4_0"), dir.File("p"));
  PackReport report;
  ASSERT_EQ(PackUntil(options, 6, &report).code(), StatusCode::kCancelled);
  std::string partial = ReadBinary(options.out + ".partial");
  for (const size_t at : {partial.size() / 3, partial.size() / 2}) partial[at] ^= 1;
  WriteBinary(options.out + ".partial", partial);
  ASSERT_TRUE(PackModel(options, &report).ok());
  EXPECT_TRUE(PackFile::Open(options.out)->Verify({}, nullptr).ok());
}

TEST(PackModel, APartialFileOfSomethingElseIsThrownAway) {
  const TempDir dir;
  WriteBinary(dir.File("order"), "3 0 2 1\n1 0 3 2\n");
  PackOptions options = PackTo(ModelPath("olmoe-m-q4_0"), dir.File("p"));
  PackReport report;
  ASSERT_EQ(PackUntil(options, 6, &report).code(), StatusCode::kCancelled);
  options.order_file = dir.File("order");
  ASSERT_TRUE(PackModel(options, &report).ok());
  EXPECT_TRUE(report.restarted);
  EXPECT_EQ(report.resumed_bytes, 0u);
  ASSERT_TRUE(MakePack(options.source, dir.File("q"), options.order_file).ok());
  EXPECT_EQ(ReadBinary(dir.File("p")), ReadBinary(dir.File("q")));

  WriteBinary(dir.File("r.partial"), "not ours");
  options.out = dir.File("r");
  ASSERT_TRUE(PackModel(options, &report).ok());
  EXPECT_TRUE(report.restarted);
}

TEST(PackModel, NoResumeBeginsAnew) {
  const TempDir dir;
  PackOptions options = PackTo(ModelPath("olmoe-m-q4_0"), dir.File("p"));
  PackReport report;
  ASSERT_EQ(PackUntil(options, 6, &report).code(), StatusCode::kCancelled);
  options.resume = false;
  ASSERT_TRUE(PackModel(options, &report).ok());
  EXPECT_EQ(report.resumed_bytes, 0u);
  EXPECT_TRUE(report.restarted);
}

TEST(PackModel, ACancelledPipeLeavesNothing) {
  const TempDir dir;
  std::atomic<bool> cancel{true};
  PackOptions options = PackTo("-", dir.File("p"));
  options.cancel = &cancel;
  PackReport report;
  signal(SIGPIPE, SIG_IGN);
  const Status status = PackFromPipe(options, ReadBinary(ModelPath("olmoe-t-f32")), 1 << 20, &report);
  signal(SIGPIPE, SIG_DFL);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(PackModel, ATruncatedPipeLeavesNothing) {
  const TempDir dir;
  const std::string bytes = ReadBinary(ModelPath("olmoe-m-q4_0"));
  for (const size_t length : {size_t{0}, size_t{3}, size_t{100}, size_t{5000}, bytes.size() / 2, bytes.size() - 1}) {
    PackReport report;
    const Status status = PackFromPipe(PackTo("-", dir.File("p")), bytes.substr(0, length), 4096, &report);
    EXPECT_EQ(status.code(), StatusCode::kCorrupt) << length << ": " << status.message();
    EXPECT_LT(status.message().size(), 300u);
    EXPECT_TRUE(fs::is_empty(dir.path())) << length;
  }
}

TEST(PackModel, OptionsThatMakeNoSenseAreRefused) {
  const TempDir dir;
  PackReport report;
  EXPECT_EQ(PackModel(PackTo("-", ""), &report).code(), StatusCode::kInvalidArgument);
  PackOptions replace = PackTo("-", dir.File("p"));
  replace.replace = true;
  EXPECT_EQ(PackModel(replace, &report).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PackModel(PackTo(dir.File("none.gguf"), ""), &report).code(), StatusCode::kNotFound);
  EXPECT_EQ(PackModel(PackTo(ModelPath("olmoe-m-q4_0"), dir.File("no/such/folder")), &report).code(), StatusCode::kIo);

  ASSERT_TRUE(MakePack(ModelPath("olmoe-m-q4_0"), dir.File("p")).ok());
  const Status again = PackModel(PackTo(dir.File("p"), dir.File("q")), &report);
  EXPECT_EQ(again.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(again.message().find("is a pack already"), std::string::npos) << again.message();
}

TEST(PackModel, AnExistingPackStaysUnlessForced) {
  const TempDir dir;
  WriteBinary(dir.File("p"), "precious");
  PackOptions options = PackTo(ModelPath("olmoe-m-q4_0"), dir.File("p"));
  PackReport report;
  EXPECT_EQ(PackModel(options, &report).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadBinary(dir.File("p")), "precious");
  options.force = true;
  EXPECT_TRUE(PackModel(options, &report).ok());
  EXPECT_TRUE(PackFile::Open(dir.File("p")).ok());
}

TEST(PackModel, TheModelIsNeverItsOwnTarget) {
  const TempDir dir;
  const std::string sound = ReadBinary(ModelPath("olmoe-m-q4_0"));
  WriteBinary(dir.File("m.gguf"), sound);
  fs::create_symlink(dir.File("m.gguf"), dir.File("link.gguf"));
  PackReport report;
  for (const char* out : {"m.gguf", "link.gguf"}) {
    PackOptions options = PackTo(dir.File("m.gguf"), dir.File(out));
    options.force = true;
    EXPECT_EQ(PackModel(options, &report).code(), StatusCode::kInvalidArgument) << out;
  }
  EXPECT_EQ(ReadBinary(dir.File("m.gguf")), sound);
}

TEST(PackModel, ReplaceRemovesTheSourceOnceThePackIsGood) {
  const TempDir dir;
  for (const char* part : {"1", "2"}) {
    const std::string name = std::string("olmoe-m-q4_0-0000") + part + "-of-00002.gguf";
    WriteBinary(dir.File(name), ReadBinary(TestData("layouts/" + name)));
  }
  PackOptions options = PackTo(dir.File("olmoe-m-q4_0-00001-of-00002.gguf"), "");
  options.replace = true;
  PackReport report;
  const Status status = PackModel(options, &report);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(report.verified);
  EXPECT_EQ(report.out, dir.File("olmoe-m-q4_0.estream.gguf"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);
  EXPECT_TRUE(PackFile::Open(report.out)->Verify({}, nullptr).ok());
}

TEST(PackModel, AModelWrittenByAnotherProcessIsLeftAlone) {
  const TempDir dir;
  WriteBinary(dir.File("p.partial"), "");
  const int fd = open(dir.File("p.partial").c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  PackReport report;
  const Status status = PackModel(PackTo(ModelPath("olmoe-m-q4_0"), dir.File("p")), &report);
  close(fd);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("another process"), std::string::npos) << status.message();
}

// Damaged models: what the container or the plan refuses leaves nothing behind; bad scales name tensor and record.
TEST(PackModel, DamagedModelsAreRefusedWithoutATrace) {
  const TempDir dir, out;
  for (const MalformedCase& c : MalformedCases()) {
    SCOPED_TRACE(c.name);
    const std::string path = MakeMalformed(c, dir);
    PackReport report;
    const Status status = PackModel(PackTo(path, out.File("p")), &report);
    if (c.expectation == "accept") {
      EXPECT_TRUE(status.ok()) << status.message();
    }
    if (c.name.find("nan-") != std::string::npos || c.name.find("inf-") != std::string::npos) {
      EXPECT_EQ(status.code(), StatusCode::kCorrupt);
      EXPECT_NE(status.message().find("NaN or infinite"), std::string::npos) << status.message();
    }
    if (!status.ok()) {
      EXPECT_TRUE(fs::is_empty(out.path()));
    }
    EXPECT_LT(status.message().size(), 300u);
    fs::remove(out.File("p"));
    fs::remove(path);
  }
}

TEST(PackModel, ABadScaleInAnExpertNamesIt) {
  const TempDir dir;
  for (const MalformedCase& c : MalformedCases()) {
    if (c.name != "inf-scale-expert") continue;
    const std::string path = MakeMalformed(c, dir);
    PackReport report;
    const Status from_file = PackModel(PackTo(path, dir.File("p")), &report);
    EXPECT_NE(from_file.message().find(".expert."), std::string::npos) << from_file.message();
    const Status from_pipe = PackFromPipe(PackTo("-", dir.File("p")), ReadBinary(path), 4096, &report);
    EXPECT_NE(from_pipe.message().find(".expert."), std::string::npos) << from_pipe.message();
  }
}

TEST(PackModel, UnsupportedTypesAreNamed) {
  const TempDir dir;
  std::string bytes = TinyModelBytes({.format = WeightFormat::kQ4_0});
  // blk.0.attn_q relabelled IQ4_NL (20), which has blocks of the same size.
  const size_t name = bytes.find("blk.0.attn_q.weight");
  bytes[name + 19 + 4 + 16] = 20;
  WriteBinary(dir.File("m.gguf"), bytes);
  PackReport report;
  const Status status = PackModel(PackTo(dir.File("m.gguf"), dir.File("p")), &report);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("blk.0.attn_q.weight"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("IQ4_NL"), std::string::npos) << status.message();
}

// In a process of its own, since the limit is for good: a file may not grow beyond 64 KiB, a disk that is full.
TEST(PackModel, AFullDiskIsAnErrorAndLeavesNoPack) {
  const TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {64 << 10, 64 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    PackReport report;
    const Status from_file = PackModel(PackTo(ModelPath("olmoe-t-f32"), dir.File("p")), &report);
    _exit(from_file.code() == StatusCode::kIo ? 0 : 1);
  }
  int result = 0;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0) << result;
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

}  // namespace
}  // namespace estream
